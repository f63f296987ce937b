// sotto_audio_bench: files to waveforms at 16 kHz, and on to Whisper's log-mel features, in seconds
// of audio a second: of one core, and by the clock on all cores, where threads take files as the
// loader's do. With a manifest its files; without, FLAC of 16 bits made here of shaped noise, 10 s
// each. bench/compare_features.py runs it beside Hugging Face's extractor.
#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "program.h"
#include "sotto/core/rng.h"
#include "sotto/data/audio/audio.h"
#include "sotto/data/audio/tar_shards.h"
#include "sotto/data/manifest/manifest.h"
#include "sotto/kernels/features/log_mel.h"

namespace {

using sotto::kernels::LogMel;

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

double clock_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The fastest of some rounds, by a clock.
template <class Work>
double fastest(int rounds, double (*now)(), Work work) {
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < rounds; ++round) {
    const double start = now();
    work();
    best = std::min(best, now() - start);
  }
  return best;
}

// work(file) for each, on some threads.
template <class Work>
void for_each_file(const std::vector<File>& files, int threads, Work work) {
  std::atomic<size_t> next = 0;
  const auto run = [&] {
    for (size_t i = next++; i < files.size(); i = next++) work(files[i]);
  };
  std::vector<std::jthread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(run);
  run();
}

struct Arguments {
  std::string manifest;
  int64_t files = std::numeric_limits<int64_t>::max();
  int rounds = 5;
  bool json = false;
};

class Bench {
 public:
  Bench(const Arguments& arguments, std::vector<File> files)
      : arguments_(arguments), files_(std::move(files)) {
    for (const File& file : files_) total_s_ += file.seconds;
  }

  void run() {
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    const double waveforms = waveforms_per_second(1, processor_seconds);
    const double features = features_per_second(1, processor_seconds);
    const double all_waveforms = waveforms_per_second(cores, clock_seconds);
    const double all_features = features_per_second(cores, clock_seconds);
    if (arguments_.json) {
      fmt::print(
          "{{\"waveforms\": {}, \"features\": {}, \"cores\": {}, \"waveforms_all\": {}, "
          "\"features_all\": {}}}\n",
          waveforms, features, cores, all_waveforms, all_features);
      return;
    }
    fmt::print("{} files, {:.0f} s of audio; seconds of audio a second of one core, and on {}\n",
               files_.size(), total_s_, cores);
    fmt::print("to waveforms: {:.0f}, {:.0f}\n", waveforms, all_waveforms);
    fmt::print("to log-mel features: {:.0f}, {:.0f}\n", features, all_features);
    fmt::print("headers: {:.0f} files a second of one core\n", headers_per_second());
  }

 private:
  std::vector<float> read(const File& file) {
    return sotto::data::read_audio({.path = file.path, .duration_s = file.seconds}, 16'000,
                                   shards_);
  }

  double waveforms_per_second(int threads, double (*now)()) {
    return total_s_ / fastest(arguments_.rounds, now, [&] {
             for_each_file(files_, threads,
                           [&](const File& file) { num_values_ += read(file).size(); });
           });
  }

  double features_per_second(int threads, double (*now)()) {
    const auto extract = [&](const File& file) {
      std::vector<float> samples = read(file);
      const at::Tensor wave = at::from_blob(samples.data(), {std::ssize(samples)}, at::kFloat);
      const sotto::kernels::Packing packing({std::ssize(samples)}, at::kCPU);
      num_values_ += static_cast<size_t>(LogMel::forward(wave, packing, tables_).numel());
    };
    return total_s_ /
           fastest(arguments_.rounds, now, [&] { for_each_file(files_, threads, extract); });
  }

  double headers_per_second() {
    return static_cast<double>(files_.size()) / fastest(arguments_.rounds, processor_seconds, [&] {
             for (const File& file : files_)
               num_values_ += sotto::data::audio_info(file.path, shards_).frames > 0 ? 1 : 0;
           });
  }

  Arguments arguments_;
  std::vector<File> files_;
  double total_s_ = 0.0;
  sotto::data::TarShards shards_;
  LogMel::Tables tables_{{.kind = sotto::kernels::LogMelKind::kWhisper}, at::kCPU};
  // What was made, so that nothing of it can be left out.
  std::atomic<size_t> num_values_ = 0;
};

int run_program(int argc, char** argv) {
  CLI::App app("Files to waveforms and features, in seconds of audio a second and core.");
  Arguments arguments;
  app.add_option("--manifest", arguments.manifest, "Files to read");
  app.add_option("--files", arguments.files, "The first so many")->check(CLI::PositiveNumber);
  app.add_option("--rounds", arguments.rounds, "The fastest counts")->check(CLI::PositiveNumber);
  app.add_flag("--json", arguments.json, "Print JSON");
  CLI11_PARSE(app, argc, argv);
  at::set_num_threads(1);  // of a kernel; files are what threads share
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "sotto_audio_bench";
  Bench(arguments, arguments.manifest.empty() ? make_files(folder)
                                              : files_of(arguments.manifest, arguments.files))
      .run();
  std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return sotto::bench::report_errors("sotto_audio_bench", [&] { return run_program(argc, argv); });
}
