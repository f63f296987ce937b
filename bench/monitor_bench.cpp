// sotto_monitor_bench: what watching a run and writing it down costs a step, beside a step of the
// network of configs/digits.yaml on this machine's CPU.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "program.h"
#include "sotto/core/error.h"
#include "sotto/data/batch/example.h"
#include "sotto/device/torch_memory.h"
#include "sotto/models/transformer_ctc/transformer_ctc.h"
#include "sotto/report/table.h"
#include "sotto/train/run/metrics.h"
#include "sotto/train/run/monitor.h"
#include "sotto/train/run/run_files.h"
#include "sotto/train/run/trainer.h"

namespace {

using namespace sotto;  // NOLINT: a program of one file

// As the strings of digits are: 2,400 of them have 8,100 seconds.
constexpr int64_t kUtterances = 8;
constexpr double kSecondsEach = 3.375;
constexpr int64_t kLabelsEach = 24;
constexpr int64_t kVocabulary = 17;
constexpr int64_t kSampleRate = 16'000;

struct Arguments {
  std::string folder = (std::filesystem::temp_directory_path() / "sotto-monitor-bench").string();
  int64_t steps = 15;
  int64_t repeat = 2000;
};

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Of so many calls, each by itself.
double median_seconds(int64_t repeat, const std::function<void(int64_t)>& action) {
  std::vector<double> seconds;
  for (int64_t i = 0; i < repeat; ++i) {
    const double start = now_s();
    action(i);
    seconds.push_back(now_s() - start);
  }
  const auto middle = seconds.begin() + std::ssize(seconds) / 2;
  std::ranges::nth_element(seconds, middle);
  return *middle;
}

std::vector<data::Example> make_examples() {
  std::vector<data::Example> examples;
  const auto rows = static_cast<int64_t>(kSecondsEach * static_cast<double>(kSampleRate));
  for (int64_t u = 0; u < kUtterances; ++u) {
    data::Example example = data::make_dry_example(rows, /*feature_dim=*/0, kLabelsEach);
    example.utterance = u;
    for (int64_t i = 0; i < rows; ++i)
      example.values.push_back(0.1f * std::sin(0.01f * static_cast<float>(i * (u + 1))));
    examples.push_back(std::move(example));
  }
  return examples;
}

train::RunConfig digits_config() {
  train::RunConfig config;
  config.model.as<models::TransformerCtcOptions>().attention_left = 16;
  config.model.as<models::TransformerCtcOptions>().attention_right = 16;
  return config;
}

// A step as `sotto train` runs it, and what is reported of it.
train::StepReport run_steps(int64_t steps) {
  const auto arena = std::make_shared<device::Arena>(device::RegionKind::kHost, int64_t{300} << 20);
  const device::ArenaGuard guard(at::kCPU, arena);
  train::Learner learner(digits_config(), {.vocabulary = kVocabulary}, at::kCPU);
  const std::vector<data::Example> examples = make_examples();
  train::StepReport report{.step = 1, .num_utterances = kUtterances};
  train::run_step(learner, examples, {.total_steps = steps});
  report.seconds = median_seconds(steps, [&](int64_t) {
    report.result = train::run_step(learner, examples, {.total_steps = steps});
  });
  report.audio_seconds = static_cast<double>(kUtterances) * kSecondsEach;
  report.peak_bytes = arena->report().peak;
  return report;
}

void run(const Arguments& arguments) {
  std::filesystem::create_directories(arguments.folder);
  const train::StepReport report = run_steps(arguments.steps);
  train::Metrics metrics(arguments.folder, 1, {});
  RunRecord record = RunRecord::open(std::filesystem::path(arguments.folder) / "record.jsonl");
  train::Monitor monitor(device::watch_memory({}), report.peak_bytes);

  report::Table table({{"of a step"},
                       {"microseconds", report::Align::kRight},
                       {"% of the step", report::Align::kRight}});
  const auto add = [&](const std::string& what, double seconds) {
    table.add_row({what, fmt::format("{:.1f}", 1e6 * seconds),
                   fmt::format("{:.3f}", 100.0 * seconds / report.seconds)});
  };
  const double line =
      median_seconds(arguments.repeat, [&](int64_t) { record.append(train::step_record(report)); });
  const double both = median_seconds(arguments.repeat, [&](int64_t) {
    metrics.add(train::step_record(report), train::step_scalars(report));
  });
  // With a clock on which a second passes between two steps, the device is asked at each.
  const double check = median_seconds(arguments.repeat, [&](int64_t i) {
    monitor.check({.step = i, .peak_bytes = report.peak_bytes, .time_s = static_cast<double>(i)});
  });
  add("line of metrics.jsonl", line);
  add("and event file", both);
  add("check of the monitor, which asks the system", check);
  table.add_rule();
  add("record and monitor together", both + check);
  add(fmt::format("the step itself: {} utterances, {:.0f} s of audio", kUtterances,
                  report.audio_seconds),
      report.seconds);
  fmt::print("{}", table.to_string());
}

int run_program(int argc, char** argv) {
  CLI::App app("What watching a run and writing it down costs a step.");
  Arguments arguments;
  app.add_option("--folder", arguments.folder, "Where to write, on the disk that runs are on");
  app.add_option("--steps", arguments.steps, "Steps of the network")->check(CLI::PositiveNumber);
  app.add_option("--repeat", arguments.repeat, "Times for each part")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  run(arguments);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::report_errors("sotto_monitor_bench", [&] { return run_program(argc, argv); });
}
