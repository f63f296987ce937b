// sotto_audio_bench: files to waveforms at 16 kHz, and on to Whisper's log-mel features, on one
// core, in seconds of audio a second. With a manifest its files; without, FLAC of 16 bits made here
// of shaped noise, 10 s each. bench/compare_features.py runs it beside Hugging Face's extractor.
#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "sotto/core/rng.h"
#include "sotto/data/audio.h"
#include "sotto/data/manifest.h"
#include "sotto/data/tar_shards.h"
#include "sotto/kernels/log_mel.h"

namespace {

struct File {
  std::filesystem::path path;
  double seconds = 0.0;
};

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Noise through a low pass, with a syllable's rise and fall: it packs as speech does.
std::vector<float> speech_like(int64_t number) {
  const sotto::RandomStream stream({.seed = 1}, {.utterance = static_cast<uint64_t>(number)});
  std::vector<float> samples(160'000);
  stream.fill_normal(samples, 0);
  float low = 0.0f;
  for (size_t i = 0; i < samples.size(); ++i) {
    low += 0.2f * (samples[i] - low);
    const float loudness = static_cast<float>(i % 4'000) / 4'000.0f;
    samples[i] = 0.1f * loudness * low;
  }
  return samples;
}

std::vector<File> make_files(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::vector<File> files;
  for (int64_t i = 0; i < 100; ++i) {
    files.push_back({.path = folder / fmt::format("{}.flac", i), .seconds = 10.0});
    sotto::data::write_flac(files.back().path, speech_like(i), 16'000);
  }
  return files;
}

std::vector<File> files_of(const std::string& path, int64_t most) {
  const sotto::data::Manifest manifest = sotto::data::Manifest::read(path);
  std::vector<File> files;
  for (int64_t u = 0; u < std::min(manifest.size(), most); ++u) {
    const sotto::data::Utterance utterance = manifest.at(u);
    files.push_back({.path = manifest.path_of(utterance), .seconds = utterance.duration_s});
  }
  return files;
}

// The fastest of some rounds, in seconds of the processor.
template <class Work>
double fastest(int rounds, Work work) {
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < rounds; ++round) {
    const double start = processor_seconds();
    work();
    best = std::min(best, processor_seconds() - start);
  }
  return best;
}

struct Arguments {
  std::string manifest;
  int64_t files = std::numeric_limits<int64_t>::max();
  int rounds = 5;
  bool json = false;
};

void measure(const Arguments& arguments, const std::vector<File>& files) {
  sotto::data::TarShards shards;
  double total_s = 0.0;
  for (const File& file : files) total_s += file.seconds;
  const auto read = [&](const File& file) {
    return sotto::data::read_audio({.path = file.path, .duration_s = file.seconds}, 16'000, shards);
  };
  size_t num_values = 0;
  const double decode_s = fastest(arguments.rounds, [&] {
    for (const File& file : files) num_values += read(file).size();
  });
  const double header_s = fastest(arguments.rounds, [&] {
    for (const File& file : files)
      num_values += sotto::data::audio_info(file.path, shards).frames > 0 ? 1 : 0;
  });
  using sotto::kernels::LogMel;
  const LogMel::Tables tables({.kind = sotto::kernels::LogMelKind::kWhisper}, at::kCPU);
  const double features_s = fastest(arguments.rounds, [&] {
    for (const File& file : files) {
      std::vector<float> samples = read(file);
      const at::Tensor wave = at::from_blob(samples.data(), {std::ssize(samples)}, at::kFloat);
      const sotto::kernels::Packing packing({std::ssize(samples)}, at::kCPU);
      num_values += static_cast<size_t>(LogMel::forward(wave, packing, tables).numel());
    }
  });
  if (arguments.json) {
    fmt::print("{{\"waveforms\": {}, \"features\": {}, \"values\": {}}}\n", total_s / decode_s,
               total_s / features_s, num_values);
    return;
  }
  fmt::print("{} files, {:.0f} s of audio, {} values in all rounds\n", files.size(), total_s,
             num_values);
  fmt::print("to waveforms: {:.0f} s of audio a second of one core\n", total_s / decode_s);
  fmt::print("to log-mel features: {:.0f} s of audio a second of one core\n", total_s / features_s);
  fmt::print("headers: {:.0f} files a second of one core\n",
             static_cast<double>(files.size()) / header_s);
}

int run_program(int argc, char** argv) {
  CLI::App app("Files to waveforms and features, in seconds of audio a second and core.");
  Arguments arguments;
  app.add_option("--manifest", arguments.manifest, "Files to read");
  app.add_option("--files", arguments.files, "The first so many")->check(CLI::PositiveNumber);
  app.add_option("--rounds", arguments.rounds, "The fastest counts")->check(CLI::PositiveNumber);
  app.add_flag("--json", arguments.json, "Print JSON");
  CLI11_PARSE(app, argc, argv);
  at::set_num_threads(1);
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "sotto_audio_bench";
  measure(arguments, arguments.manifest.empty() ? make_files(folder)
                                                : files_of(arguments.manifest, arguments.files));
  std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_program(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "sotto_audio_bench: {}\n", error.what());
    return 1;
  }
}
