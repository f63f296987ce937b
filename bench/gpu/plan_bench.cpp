// gpu_plans: plans of known networks in budgets of 4 to 40 GiB, each run in an arena that has just
// the bytes that it asked for: what the driver shows against predicted + constant, and speed
// against the time model.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "../program.h"
#include "sotto/core/error.h"
#include "sotto/core/units.h"
#include "sotto/data/batch/example_list.h"
#include "sotto/device/cuda_device.h"
#include "sotto/device/torch_memory.h"
#include "sotto/plan/calibration.h"
#include "sotto/plan/device_rates.h"
#include "sotto/plan/planner.h"
#include "sotto/report/table.h"
#include "sotto/train/step/epoch_audit.h"
#include "sotto/train/step/library_constant.h"
#include "watch.h"
#include "workload.h"

namespace {

using namespace sotto;  // NOLINT: a program of one file

using bench::Lengths;
using bench::Workload;

constexpr int64_t kTableWidth = 160;
constexpr double kGib = 1 << 30;

struct Arguments {
  std::string lengths;
  std::vector<std::string> cases;
  std::string pretended;
  int64_t effective_batch = 32;
  int64_t warmup = 3;
  double warmup_s = 4.0;
  int64_t steps = 5;
  std::string json;
};

// "xls-r-1b:bf16-exact:8GiB"
struct Case {
  std::string model;
  std::string numerics;
  std::string budget;

  static Case parse(const std::string& text) {
    const size_t first = text.find(':'), last = text.rfind(':');
    if (first == std::string::npos || first == last)
      throw ConfigError({.attempted = "reading a case",
                         .found = text,
                         .expected = "MODEL:NUMERICS:BUDGET, such as xls-r-1b:bf16-exact:8GiB"});
    return {text.substr(0, first), text.substr(first + 1, last - first - 1), text.substr(last + 1)};
  }
};

constexpr std::array kCases = {"wav2vec2-base:bf16-exact:4GiB",
                               "wav2vec2-base:bf16-exact:6GiB",
                               "wav2vec2-base:bf16-exact:8GiB",
                               "wav2vec2-base:bf16-lean:4GiB",
                               "wav2vec2-base:tf32:6GiB",
                               "wav2vec2-base:tf32:12GiB",
                               "wav2vec2-base:fp32:8GiB",
                               "wav2vec2-base:fp16:6GiB",
                               "wav2vec2-large-lv60:bf16-exact:6GiB",
                               "wav2vec2-large-lv60:bf16-exact:8GiB",
                               "wav2vec2-large-lv60:bf16-exact:12GiB",
                               "wav2vec2-large-lv60:bf16-exact:16GiB",
                               "wav2vec2-large-lv60:bf16-exact:24GiB",
                               "wav2vec2-large-lv60:bf16-lean:6GiB",
                               "wav2vec2-large-lv60:bf16-lean:12GiB",
                               "wav2vec2-large-lv60:tf32:12GiB",
                               "wav2vec2-large-lv60:tf32:24GiB",
                               "wav2vec2-large-lv60:fp32:24GiB",
                               "wav2vec2-large-lv60:fp16:16GiB",
                               "xls-r-1b:bf16-exact:8GiB",
                               "xls-r-1b:bf16-exact:12GiB",
                               "xls-r-1b:bf16-exact:16GiB",
                               "xls-r-1b:bf16-exact:24GiB",
                               "xls-r-1b:bf16-exact:40GiB",
                               "xls-r-1b:bf16-lean:8GiB",
                               "xls-r-1b:bf16-lean:16GiB",
                               "xls-r-1b:tf32:40GiB",
                               "decoder-lm:bf16-exact:4GiB",
                               "decoder-lm:bf16-exact:16GiB",
                               "decoder-lm:bf16-lean:4GiB",
                               "decoder-lm:tf32:12GiB",
                               "decoder-lm:fp32:8GiB"};

struct Row {
  Case of;
  plan::Candidate candidate;
  int64_t constant = 0;
  int64_t measured = 0;  // high-water mark of the arena
  int64_t shown = 0;     // by the driver, at most
  double speed = 0.0;
  double launch_share = 0.0;
  // Of each step that was timed.
  std::vector<double> step_s = {}, launch_s = {}, amounts = {}, pieces = {};
};

data::ExampleList all_examples(const Workload& one, const Lengths& lengths, int64_t count) {
  std::vector<data::Example> all;
  std::vector<float> durations;
  for (int64_t i = 0; i < count; ++i) {
    all.push_back(one.examples(lengths, i, /*with_values=*/false).front());
    durations.push_back(static_cast<float>(one.amount({&all.back(), 1})));
  }
  return data::ExampleList(std::move(all), std::move(durations));
}

Row run(const Arguments& arguments, const Case& of, const Lengths& lengths,
        const device::RunDevice& device) {
  Workload work = bench::model_workload(of.model);
  work.config.numerics = value_of(of.numerics, train::kNumerics);
  if (work.sequence == 0) work.batch = arguments.effective_batch;
  work.config.effective_batch = {.utterances = work.batch};
  const int64_t total = arguments.warmup + arguments.steps;
  Workload one = work;
  one.batch = 1;
  const data::ExampleList list = all_examples(one, lengths, 2 * total * work.batch);
  train::apply_arithmetic(work.config.arithmetic());
  const int64_t constant =
      train::measure_library_constant(work.config, work.shape, device, device.memory.total_bytes);
  const plan::PlanRequest request{
      .config = work.config,
      .open = {.numerics = false},
      .shape = work.shape,
      .target = device.target,
      .budget = {.bytes = parse_bytes(of.budget) - constant,
                 .host_bytes = int64_t{64} << 30,
                 .constant_bytes = constant},
      .rates = [&](train::Compute compute) { return plan::known_rates(device, compute); }};
  Row row{.of = of, .candidate = plan::Planner(request, list).plan().best, .constant = constant};
  const train::RunConfig& config = row.candidate.config;
  train::apply_arithmetic(config.arithmetic());
  const int64_t arena_bytes = row.candidate.fit.worst.high_water;
  const data::EpochOrder epoch =
      data::Sampler({.seed = static_cast<uint64_t>(config.seed), .batch = config.effective_batch},
                    list.lengths())
          .epoch(0);
  train::StepSettings settings{
      .reduction = config.reduction, .tier = config.tier, .total_steps = total};
  {
    train::DryRun dry(config, work.shape, train::DryRun::Purpose::kTraining, device.target);
    settings.limits = train::limits_of(config);
    const train::StepBudget budget{.bytes = arena_bytes};
    settings.limits =
        train::BudgetFit(dry, list, budget).find_limits(config.effective_batch, settings).limits;
    settings.limits = train::EpochAuditor(dry, list, budget).audit(epoch, settings).fit.limits;
  }
  const device::TargetScope target(device.target);
  const auto arena = std::make_shared<device::Arena>(device::RegionKind::kCuda, arena_bytes);
  const device::ArenaGuard guard(at::kCUDA, arena);
  train::Learner learner(config, work.shape, device.torch);
  bench::Watch watch(device);
  std::vector<double> speeds, launch_shares;
  const double first_s = bench::now_s();
  for (int64_t step = 0; std::ssize(speeds) < arguments.steps; ++step) {
    std::vector<data::Example> examples;
    for (const uint32_t index : epoch.utterances(step % epoch.num_steps()))
      examples.push_back(one.examples(lengths, index, /*with_values=*/true).front());
    settings.step = step % total + 1;
    device::synchronize_cuda();
    const double start = bench::now_s();
    const train::StepResult result = train::run_step(learner, examples, settings);
    device::synchronize_cuda();
    const double seconds = bench::now_s() - start;
    // The first updates of an arithmetic in a process load kernels, shape by shape.
    if (step < arguments.warmup || start - first_s < arguments.warmup_s) continue;
    speeds.push_back(work.amount(examples) / seconds);
    row.step_s.push_back(seconds);
    row.launch_s.push_back(result.launch_seconds);
    row.pieces.push_back(static_cast<double>(result.num_micro_batches));
    row.amounts.push_back(work.amount(examples));
    launch_shares.push_back(result.launch_seconds / seconds);
  }
  row.measured = arena->report().high_water;
  row.shown = watch.stop();
  row.speed = bench::median(speeds);
  row.launch_share = bench::median(launch_shares);
  return row;
}

std::string percent(double share) {
  return fmt::format("{:+.1f} %", 100.0 * share);
}

void show(const std::vector<Row>& rows) {
  report::Table table({{"network"},
                       {"numerics"},
                       {"budget"},
                       {"state"},
                       {"tier"},
                       {"pieces", report::Align::kRight},
                       {"planned GiB", report::Align::kRight},
                       {"shown", report::Align::kRight},
                       {"arena", report::Align::kRight},
                       {"planned /s", report::Align::kRight},
                       {"measured /s", report::Align::kRight},
                       {"off by", report::Align::kRight},
                       {"launching", report::Align::kRight}});
  for (const Row& row : rows) {
    const auto planned = static_cast<double>(row.candidate.fit.worst.high_water + row.constant);
    table.add_row(
        {row.of.model, row.of.numerics, row.of.budget,
         std::string(name_of(row.candidate.config.optimizer.state, optim::kStateLocations)),
         row.candidate.config.tier.to_string(),
         fmt::format("{}, {:.0f}", row.candidate.micro_batches, bench::median(row.pieces)),
         fmt::format("{:.2f}", planned / kGib),
         percent(static_cast<double>(row.shown) / planned - 1.0),
         percent(static_cast<double>(row.measured) /
                     static_cast<double>(row.candidate.fit.worst.high_water) -
                 1.0),
         fmt::format("{:.0f}", row.candidate.speed()), fmt::format("{:.0f}", row.speed),
         percent(row.candidate.speed() / row.speed - 1.0),
         fmt::format("{:.0f} %", 100.0 * row.launch_share)});
  }
  fmt::print("{}", table.to_string(kTableWidth));
}

nlohmann::ordered_json to_json(const Row& row) {
  nlohmann::ordered_json json = {
      {"model", row.of.model},
      {"numerics", row.of.numerics},
      {"budget", row.of.budget},
      {"state", name_of(row.candidate.config.optimizer.state, optim::kStateLocations)},
      {"tier", row.candidate.config.tier.to_string()},
      {"max_frames", row.candidate.config.max_frames},
      {"micro_batches", row.candidate.micro_batches},
      {"planned_arena_bytes", row.candidate.fit.worst.high_water},
      {"measured_arena_bytes", row.measured},
      {"constant_bytes", row.constant},
      {"shown_bytes", row.shown},
      {"planned_speed", row.candidate.speed()},
      {"measured_speed", row.speed},
      {"planned_batches_s", row.candidate.time.batches_s},
      {"planned_update_s", row.candidate.time.update_s},
      {"planned_waiting_s", row.candidate.time.waiting_s},
      {"planned_launching_s", row.candidate.time.launching_s},
      {"planned_amount", row.candidate.step_audio_s},
      {"launch_share", row.launch_share},
      {"step_s", row.step_s},
      {"launch_s", row.launch_s},
      {"pieces", row.pieces},
      {"amounts", row.amounts}};
  for (const auto& [kernel, seconds] : row.candidate.time.by_kernel_s)
    json["planned_by_kernel_s"][kernel] = seconds;
  return json;
}

int run_program(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"Plans against what they take on a GPU"};
  app.add_option("--lengths", arguments.lengths, "TSV of utterances: name, samples, seconds, ...")
      ->required();
  app.add_option("--case", arguments.cases, "MODEL:NUMERICS:BUDGET; by default 32 of them");
  app.add_option("--pretend-device", arguments.pretended, "Memory and abilities of another card");
  app.add_option("--batch", arguments.effective_batch, "Utterances of an update");
  app.add_option("--warmup", arguments.warmup, "Updates before those");
  app.add_option("--warmup-seconds", arguments.warmup_s, "And so long at least");
  app.add_option("--steps", arguments.steps, "Updates that are timed");
  app.add_option("--json", arguments.json, "File for the results");
  CLI11_PARSE(app, argc, argv);
  const Lengths lengths = bench::read_lengths(arguments.lengths);
  const device::RunDevice device = device::open_device("cuda", arguments.pretended);
  std::vector<Row> rows;
  if (arguments.cases.empty()) arguments.cases.assign(kCases.begin(), kCases.end());
  std::set<std::string> warm;
  for (const std::string& text : arguments.cases) {
    try {
      const Case one = Case::parse(text);
      // The first of an arithmetic loads kernels, shape by shape: it runs once more.
      if (warm.insert(one.numerics).second) run(arguments, one, lengths, device);
      rows.push_back(run(arguments, one, lengths, device));
    } catch (const Error& error) {
      fmt::print("{}: {}\n", text, error.what());
    }
  }
  show(rows);
  if (!arguments.json.empty()) {
    nlohmann::ordered_json results = nlohmann::ordered_json::array();
    for (const Row& row : rows) results.push_back(to_json(row));
    std::ofstream(arguments.json) << results.dump(2) << '\n';
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::report_errors("gpu_plans", [&] { return run_program(argc, argv); });
}
