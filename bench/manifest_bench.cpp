// A manifest of millions of lines: how fast it is indexed and opened again, and what sampling an
// epoch of it takes in time and memory. Links no LibTorch, so that memory is that of the data
// alone.
//
//   build/bin/sotto_manifest_bench --lines 5200000
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "program.h"
#include "sotto/core/rng.h"
#include "sotto/core/units.h"
#include "sotto/data/batch/sampler.h"
#include "sotto/data/manifest/manifest.h"

namespace {

using sotto::data::Manifest;

class Timer {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// "VmRSS:    1234 kB" of this process.
int64_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6)) * 1024;
  }
  return 0;
}

// Paths and texts as long as those of LibriSpeech.
void write_manifest(const std::filesystem::path& path, int64_t lines) {
  const sotto::RandomStream stream({.seed = 1});
  const std::string words =
      "chapter one missus rachel lynde is surprised missus rachel lynde lived just where the "
      "avonlea main road dipped down into a little hollow fringed with alders and ladies eardrops "
      "and traversed by a brook that had its source away back in the woods of the old place";
  std::ofstream file(path, std::ios::binary);
  for (int64_t i = 0; i < lines; ++i) {
    const double seconds = 1.0 + 15.0 * stream.uniform(static_cast<uint64_t>(i));
    file << fmt::format(
        R"({{"audio_filepath": "train/{0}/{1}/{0}-{1}-{2:07}.flac", "duration": {3:.3f}, "text": "{4}"}})"
        "\n",
        i % 1'000, i % 77, i, seconds,
        std::string_view(words).substr(0, static_cast<size_t>(14.0 * seconds)));
  }
}

void measure(const std::filesystem::path& path, int64_t lines) {
  const Timer indexing;
  {
    const Manifest manifest = Manifest::read(path, {.min_stored_bytes = 0});
  }
  const double index_s = indexing.seconds();
  const Timer opening;
  const Manifest manifest = Manifest::read(path, {.min_stored_bytes = 0});
  const double open_s = opening.seconds();

  const auto durations = manifest.index().columns().durations_s;
  const sotto::data::Sampler sampler({.seed = 1}, {durations.begin(), durations.end()});
  const Timer laying_out;
  const sotto::data::EpochOrder epoch = sampler.epoch(0);
  const double epoch_s = laying_out.seconds();
  double seconds = 0.0;
  double longest_step_s = 0.0;
  const Timer sampling;
  for (int64_t step = 0; step < epoch.num_steps(); ++step) {
    const Timer one;
    for (const uint32_t position : epoch.utterances(step)) seconds += manifest.duration_s(position);
    longest_step_s = std::max(longest_step_s, one.seconds());
  }
  const double sampling_s = sampling.seconds();
  const int64_t resident = resident_bytes();
  const Timer reading;
  constexpr int64_t kRead = 10'000;
  for (int64_t i = 0; i < kRead; ++i) seconds += manifest.at(i * 7919 % manifest.size()).duration_s;

  fmt::print("{} lines, {} cores, {:.1f} hours\n", lines, std::thread::hardware_concurrency(),
             seconds / 3600.0);
  fmt::print("index      {:8.2f} s   {:.0f} lines/s\n", index_s,
             static_cast<double>(lines) / index_s);
  fmt::print("open again {:8.3f} s\n", open_s);
  fmt::print("an epoch's order {:.3f} s; a step {:.4f} ms, the longest {:.3f} ms\n", epoch_s,
             1e3 * sampling_s / static_cast<double>(epoch.num_steps()), 1e3 * longest_step_s);
  fmt::print("resident   {} while an epoch is sampled\n", sotto::format_bytes(resident));
  fmt::print("a line read and parsed: {:.1f} us\n", 1e6 * reading.seconds() / kRead);
}

int run_program(int argc, char** argv) {
  CLI::App app("A manifest of millions of lines");
  int64_t lines = 5'200'000;
  app.add_option("--lines", lines, "Of the generated manifest")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("sotto-manifest-bench-{}", getpid());
  std::filesystem::create_directories(folder);
  write_manifest(folder / "m.jsonl", lines);
  measure(folder / "m.jsonl", lines);
  std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return sotto::bench::report_errors("sotto_manifest_bench",
                                     [&] { return run_program(argc, argv); });
}
