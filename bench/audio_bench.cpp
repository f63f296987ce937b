// sotto_audio_bench: files to waveforms at 16 kHz on one core, in seconds of audio a second. With a
// manifest its files; without, FLAC of 16 bits made here of shaped noise, 10 s each.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "sotto/core/rng.h"
#include "sotto/data/audio.h"
#include "sotto/data/manifest.h"
#include "sotto/data/tar_shards.h"

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

std::vector<File> files_of(const std::string& path) {
  const sotto::data::Manifest manifest = sotto::data::Manifest::read(path);
  std::vector<File> files;
  for (int64_t u = 0; u < manifest.size(); ++u) {
    const sotto::data::Utterance& utterance = manifest.at(u);
    files.push_back({.path = manifest.path_of(utterance), .seconds = utterance.duration_s});
  }
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Files to waveforms, in seconds of audio a second and core.");
  std::string manifest;
  int rounds = 5;
  app.add_option("--manifest", manifest, "Files to read");
  app.add_option("--rounds", rounds, "The fastest counts")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "sotto_audio_bench";
  const std::vector<File> files = manifest.empty() ? make_files(folder) : files_of(manifest);
  sotto::data::TarShards shards;
  double total_s = 0.0;
  for (const File& file : files) total_s += file.seconds;
  double decode_s = 1e9, header_s = 1e9;
  size_t num_samples = 0;
  for (int round = 0; round < rounds; ++round) {
    double start = processor_seconds();
    for (const File& file : files)
      num_samples +=
          sotto::data::read_audio({.path = file.path, .duration_s = file.seconds}, 16'000, shards)
              .size();
    decode_s = std::min(decode_s, processor_seconds() - start);
    start = processor_seconds();
    for (const File& file : files)
      num_samples += sotto::data::audio_info(file.path, shards).frames > 0 ? 1 : 0;
    header_s = std::min(header_s, processor_seconds() - start);
  }
  std::filesystem::remove_all(folder);
  std::printf("%zu files, %.0f s of audio, %zu samples in all rounds\n", files.size(), total_s,
              num_samples);
  std::printf("to waveforms: %.0f s of audio a second of one core\n", total_s / decode_s);
  std::printf("headers: %.0f files a second of one core\n",
              static_cast<double>(files.size()) / header_s);
  return 0;
}
