// A checkpoint beside dd: how fast each puts as many bytes onto the same disk, in turns, and how
// much memory the checkpoint takes while it is written.
//
//   build/bin/sotto_checkpoint_bench --model wav2vec2-large --out /data
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "program.h"
#include "sotto/core/error.h"
#include "sotto/core/units.h"
#include "sotto/data/import/run_program.h"
#include "sotto/data/text/vocabulary.h"
#include "sotto/train/checkpoint/checkpoint.h"

namespace {

namespace fs = std::filesystem;

// A field of /proc/self/status, "VmRSS:    1234 kB".
int64_t status_bytes(std::string_view field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) return std::stoll(line.substr(field.size() + 1)) * 1024;
  }
  return 0;
}

// The peak begins where the process is now.
void reset_peak() {
  std::ofstream("/proc/self/clear_refs") << 5;
}

double seconds_of(const std::function<void()>& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int64_t bytes_below(const fs::path& folder) {
  int64_t sum = 0;
  for (const auto& entry : fs::directory_iterator(folder))
    sum += static_cast<int64_t>(entry.file_size());
  return sum;
}

void run_dd(const fs::path& file, int64_t num_bytes) {
  const sotto::data::ProgramResult result =
      sotto::data::run_program({"dd", "if=/dev/zero", "of=" + file.string(), "bs=1M",
                                fmt::format("count={}", num_bytes >> 20), "conv=fsync"});
  if (result.has_started && result.exit_code == 0) return;
  throw sotto::DataError({.attempted = "running dd", .found = result.output});
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure(const std::string& preset, const fs::path& folder, int64_t rounds) {
  sotto::data::CharacterSet characters;
  characters.add("abcdefghijklmnopqrstuvwxyz '");
  sotto::train::Checkpoint checkpoint{
      .state = {},
      .config = {},
      .tokenizer = {sotto::data::Vocabulary::from_characters(characters), {}}};
  checkpoint.config.model = sotto::models::ModelOptions::of_preset(preset);
  checkpoint.state.shape = {.vocabulary = checkpoint.tokenizer.size()};
  const sotto::train::Learner learner(checkpoint.config, checkpoint.state.shape, at::kCPU);
  const int64_t num_parameters = learner.model->parameters().num_values();
  std::vector<double> ratios;
  int64_t growth = 0;
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t before = status_bytes("VmRSS");
    reset_peak();
    const double ours_s = seconds_of(
        [&] { sotto::train::write_checkpoint(folder / "checkpoint", learner, checkpoint); });
    growth = std::max(growth, status_bytes("VmHWM") - before);
    const int64_t num_bytes = bytes_below(folder / "checkpoint");
    fs::remove_all(folder / "checkpoint");
    const double theirs_s = seconds_of([&] { run_dd(folder / "dd", num_bytes); });
    fs::remove(folder / "dd");
    const auto speed = [&](double seconds) {
      return static_cast<double>(num_bytes) / 1e6 / seconds;
    };
    ratios.push_back(theirs_s / ours_s);
    fmt::print("{:.0f} million parameters, {}: {:.0f} MB/s; dd {:.0f} MB/s; {:.2f} of dd\n",
               static_cast<double>(num_parameters) / 1e6, sotto::format_bytes(num_bytes),
               speed(ours_s), speed(theirs_s), ratios.back());
  }
  fmt::print("median {:.2f} of dd; memory grew by {} at most\n", median(ratios),
             sotto::format_bytes(growth));
}

int run(int argc, char** argv) {
  CLI::App app("A checkpoint beside dd");
  std::string preset = "wav2vec2-large";
  std::string out = fs::temp_directory_path().string();
  int64_t rounds = 5;
  app.add_option("--model", preset, "Preset of the network");
  app.add_option("--out", out, "Folder on the disk to be measured");
  app.add_option("--rounds", rounds, "Of both, in turns")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  const fs::path folder = fs::path(out) / fmt::format("sotto-checkpoint-bench-{}", getpid());
  fs::create_directories(folder);
  measure(preset, folder, rounds);
  fs::remove_all(folder);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return sotto::bench::report_errors("sotto_checkpoint_bench", [&] { return run(argc, argv); });
}
