// gpu_stack: whole updates of transformer stacks of known shapes on a GPU, on true lengths of
// utterances: speed by tier, predicted against measured bytes, and the budget against what the
// driver shows. bench/gpu/stack_peer.py does the same updates in PyTorch; run.sh runs both.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "../program.h"
#include "sotto/core/error.h"
#include "sotto/core/units.h"
#include "sotto/data/batch/example_list.h"
#include "sotto/device/cuda_device.h"
#include "sotto/device/run_device.h"
#include "sotto/device/torch_memory.h"
#include "sotto/models/wav2vec2/wav2vec2_options.h"
#include "sotto/nn/fronts/wave_encoder.h"
#include "sotto/report/table.h"
#include "sotto/train/step/dry_run.h"
#include "sotto/train/step/fit.h"
#include "sotto/train/step/library_constant.h"
#include "sotto/train/step/step.h"
#include "watch.h"
#include "workload.h"

namespace {

using namespace sotto;  // NOLINT: a program of one file

using bench::Lengths;
using bench::median;
using bench::now_s;
using bench::Watch;
using bench::Workload;

// Of a file rather than a terminal.
constexpr int64_t kTableWidth = 120;

struct Arguments {
  std::string lengths;
  std::string stack = "24x1024";
  // A preset instead: a whole network, from the waveform or from tokens.
  std::string model;
  std::string numerics = "bf16-exact";
  std::vector<std::string> tiers = {"none", "norms", "ffn", "qkv", "block"};
  std::vector<std::string> budgets;
  int64_t effective_batch = 32;
  std::string state = "device";
  int64_t warmup = 3;
  int64_t steps = 10;
  int64_t creep_packs = 0;
  std::string json;
};

Workload workload_of(const Arguments& arguments) {
  Workload work = arguments.model.empty() ? bench::stack_workload(arguments.stack)
                                          : bench::model_workload(arguments.model);
  work.config.numerics = value_of(arguments.numerics, train::kNumerics);
  work.config.optimizer.state = value_of(arguments.state, optim::kStateLocations);
  if (work.sequence == 0) work.batch = arguments.effective_batch;
  work.config.effective_batch = {.utterances = work.batch};
  return work;
}

struct Row {
  std::string what;
  double speed = 0.0;
  int64_t predicted = 0;       // high-water mark of the dry run, over all steps
  int64_t measured = 0;        // the same of the arena
  int64_t predicted_peak = 0;  // bytes alive
  int64_t measured_peak = 0;
  int64_t slack = 0;     // largest bound of a library call minus what it took, workspace of it
  int64_t breaches = 0;  // calls that took more than declared
  int64_t constant = 0;
  int64_t budget = 0;
  int64_t shown = 0;  // by the driver, at most
  int64_t samples = 0;
  double micro_batches = 0.0;
  double launch_share = 0.0;  // of the step's time, until the host had nothing left to launch
  double front_share = 0.0;   // of the step's time, that the convolutions over the waveform take
};

// Of the convolutions over the waveform alone: seconds a second of audio, in each of some steps.
std::vector<double> front_shares(const Workload& work, const Lengths& lengths,
                                 const device::RunDevice& device) {
  const models::Wav2Vec2Options& options = work.config.model.as<models::Wav2Vec2Options>();
  nn::ParameterStore store;
  const nn::WaveEncoder waves(store, "waves",
                              {.widths = options.conv_widths,
                               .kernels = options.conv_kernels,
                               .strides = options.conv_strides,
                               .has_bias = options.conv_bias,
                               .norm = options.conv_norm,
                               .piece_frames = options.piece_frames});
  const at::ScalarType type = work.config.arithmetic().compute_type();
  store.allocate({.device = device.torch, .weights = type, .trains = false});
  device::HostMemory host(device.torch.type());
  device::StagingBuffer staging(host);
  std::vector<double> seconds;
  for (int64_t step = 0; step < 6; ++step) {
    const std::vector<data::Example> examples = work.examples(lengths, step, /*with_values=*/true);
    std::vector<int64_t> indices(examples.size());
    std::iota(indices.begin(), indices.end(), int64_t{0});
    const data::MicroBatch batch =
        data::make_micro_batch(examples, indices, staging, {.device = device.torch});
    std::vector<int64_t> frames;
    for (const int64_t samples : batch.packing.lengths())
      frames.push_back(waves.num_frames(samples));
    const kernels::Packing packing(frames, device.torch);
    device::synchronize_cuda();
    const double start = now_s();
    waves.forward(batch.values, {.samples = batch.packing, .frames = packing}, type);
    device::synchronize_cuda();
    if (step > 0) seconds.push_back((now_s() - start) / work.amount(examples));
  }
  return seconds;
}

// All steps on the device inside `arena_bytes`, and before that the same steps dry.
Row run(const Arguments& arguments, const Workload& work, const Lengths& lengths,
        const device::RunDevice& device, int64_t arena_bytes, const train::StepSettings& base) {
  Row row;
  const train::RunConfig& config = work.config;
  const int64_t total = arguments.warmup + arguments.steps;
  train::DryRun dry(config, work.shape, train::DryRun::Purpose::kTraining, device.target);
  for (int64_t step = 0; step < total; ++step) {
    train::StepSettings settings = base;
    settings.step = step + 1;
    const device::MemoryReport report =
        dry.run_step(work.examples(lengths, step, /*with_values=*/false), settings);
    row.predicted = std::max(row.predicted, report.high_water);
    row.predicted_peak = std::max(row.predicted_peak, report.peak);
  }

  const device::TargetScope target(device.target);
  const auto arena = std::make_shared<device::Arena>(device::RegionKind::kCuda, arena_bytes);
  const device::ArenaGuard guard(at::kCUDA, arena);
  train::Learner learner(config, work.shape, device.torch);
  Watch watch(device);
  std::vector<double> speeds;
  std::vector<double> launch_shares;
  for (int64_t step = 0; step < total; ++step) {
    const std::vector<data::Example> examples = work.examples(lengths, step, /*with_values=*/true);
    train::StepSettings settings = base;
    settings.step = step + 1;
    settings.total_steps = total;
    arena->reset_peak();
    device::synchronize_cuda();
    const double start = now_s();
    const train::StepResult result = train::run_step(learner, examples, settings);
    device::synchronize_cuda();
    const double seconds = now_s() - start;
    if (step >= arguments.warmup) {
      speeds.push_back(work.amount(examples) / seconds);
      launch_shares.push_back(result.launch_seconds / seconds);
    }
    const device::MemoryReport report = arena->report();
    row.measured = std::max(row.measured, report.high_water);
    row.measured_peak = std::max(row.measured_peak, report.peak);
    row.micro_batches += static_cast<double>(result.num_micro_batches) / static_cast<double>(total);
    for (const device::LibraryUse& use : report.library_calls) {
      row.slack = std::max(row.slack, use.declared_bytes - use.measured_bytes);
      row.breaches += use.num_breaches;
    }
  }
  row.shown = watch.stop();
  row.samples = watch.samples();
  row.speed = median(speeds);
  row.launch_share = median(launch_shares);
  if (config.model.find<models::Wav2Vec2Options>() != nullptr)
    row.front_share = median(front_shares(work, lengths, device)) * row.speed;
  return row;
}

std::string gib(int64_t bytes) {
  return fmt::format("{:.3f}", static_cast<double>(bytes) / static_cast<double>(int64_t{1} << 30));
}

void run_tiers(const Arguments& arguments, const Lengths& lengths, const device::RunDevice& device,
               nlohmann::ordered_json& results) {
  const Workload work = workload_of(arguments);
  const train::RunConfig& config = work.config;
  train::apply_arithmetic(config.arithmetic());
  const int64_t constant =
      train::measure_library_constant(config, work.shape, device, device.memory.total_bytes);
  report::Table table({{work.name + " " + arguments.numerics},
                       {work.unit, report::Align::kRight},
                       {"predicted GiB", report::Align::kRight},
                       {"measured GiB", report::Align::kRight},
                       {"difference", report::Align::kRight},
                       {"bound - library", report::Align::kRight},
                       {"breaches", report::Align::kRight},
                       {"launching", report::Align::kRight},
                       {"front", report::Align::kRight}});
  for (const std::string& tier : arguments.tiers) {
    const int64_t free = device::read_cuda_memory().free_bytes;
    Row row = run(arguments, work, lengths, device, free - (int64_t{2} << 30),
                  {.tier = value_of(tier, nn::kTiers)});
    row.constant = constant;
    table.add_row({tier, fmt::format("{:.0f}", row.speed), gib(row.predicted), gib(row.measured),
                   fmt::format("{}", row.measured - row.predicted), format_bytes(row.slack),
                   fmt::format("{}", row.breaches),
                   fmt::format("{:.0f} %", 100.0 * row.launch_share),
                   fmt::format("{:.1f} %", 100.0 * row.front_share)});
    results.push_back({{"network", work.name},
                       {"numerics", arguments.numerics},
                       {"tier", tier},
                       {"audio_seconds_per_second", row.speed},
                       {"predicted_bytes", row.predicted},
                       {"measured_bytes", row.measured},
                       {"predicted_peak_bytes", row.predicted_peak},
                       {"measured_peak_bytes", row.measured_peak},
                       {"bound_minus_library_bytes", row.slack},
                       {"breaches", row.breaches},
                       {"launch_share", row.launch_share},
                       {"front_share", row.front_share},
                       {"constant_bytes", constant}});
  }
  fmt::print("{}", table.to_string(kTableWidth));
}

void run_budgets(const Arguments& arguments, const Lengths& lengths,
                 const device::RunDevice& device, nlohmann::ordered_json& results) {
  const Workload work = workload_of(arguments);
  const train::RunConfig& config = work.config;
  train::apply_arithmetic(config.arithmetic());
  const int64_t constant =
      train::measure_library_constant(config, work.shape, device, device.memory.total_bytes);
  report::Table table({{work.name + " in a budget"},
                       {"tier"},
                       {work.unit, report::Align::kRight},
                       {"micro-batches", report::Align::kRight},
                       {"arena GiB", report::Align::kRight},
                       {"constant MiB", report::Align::kRight},
                       {"shown GiB", report::Align::kRight},
                       {"of budget", report::Align::kRight},
                       {"samples", report::Align::kRight}});
  for (const std::string& text : arguments.budgets) {
    const int64_t budget = parse_bytes(text);
    for (const std::string& tier : arguments.tiers) {
      train::StepSettings settings{.tier = value_of(tier, nn::kTiers)};
      train::DryRun dry(config, work.shape, train::DryRun::Purpose::kTraining, device.target);
      std::vector<data::Example> all;
      std::vector<float> durations;
      for (int64_t step = 0; step < arguments.warmup + arguments.steps; ++step) {
        for (data::Example& example : work.examples(lengths, step, /*with_values=*/false)) {
          durations.push_back(static_cast<float>(work.amount({&example, 1})));
          all.push_back(std::move(example));
        }
      }
      const data::ExampleList list(std::move(all), durations);
      train::BudgetFit fit(dry, list, {.bytes = budget - constant});
      try {
        settings.limits = fit.find_limits(config.effective_batch, settings).limits;
      } catch (const ConfigError& error) {
        fmt::print("{} {}: {}\n", text, tier, error.what());
        continue;
      }
      const Row row = run(arguments, work, lengths, device, budget - constant, settings);
      table.add_row(
          {text, tier, fmt::format("{:.0f}", row.speed), fmt::format("{:.1f}", row.micro_batches),
           gib(budget - constant), fmt::format("{}", constant >> 20), gib(row.shown),
           fmt::format(
               "{:+.2f} %",
               100.0 * (static_cast<double>(row.shown) / static_cast<double>(budget) - 1.0)),
           fmt::format("{}", row.samples)});
      results.push_back({{"network", work.name},
                         {"budget_bytes", budget},
                         {"tier", tier},
                         {"audio_seconds_per_second", row.speed},
                         {"micro_batches", row.micro_batches},
                         {"arena_bytes", budget - constant},
                         {"constant_bytes", constant},
                         {"predicted_bytes", row.predicted},
                         {"measured_bytes", row.measured},
                         {"shown_bytes", row.shown},
                         {"samples", row.samples}});
    }
  }
  fmt::print("{}", table.to_string(kTableWidth));
}

// The same packs three times over: the length that the arena reached after each time.
void run_creep(const Arguments& arguments, const Lengths& lengths, const device::RunDevice& device,
               nlohmann::ordered_json& results) {
  const Workload work = workload_of(arguments);
  const train::RunConfig& config = work.config;
  train::apply_arithmetic(config.arithmetic());
  const device::TargetScope target(device.target);
  const int64_t free = device::read_cuda_memory().free_bytes;
  const auto arena =
      std::make_shared<device::Arena>(device::RegionKind::kCuda, free - (int64_t{2} << 30));
  const device::ArenaGuard guard(at::kCUDA, arena);
  train::Learner learner(config, work.shape, device.torch);
  for (int64_t epoch = 1; epoch <= 3; ++epoch) {
    for (int64_t pack = 0; pack < arguments.creep_packs; ++pack) {
      train::run_step(learner, work.examples(lengths, pack, /*with_values=*/true),
                      {.tier = nn::Tier::kNorms,
                       .step = (epoch - 1) * arguments.creep_packs + pack + 1,
                       .total_steps = 3 * arguments.creep_packs});
    }
    const device::MemoryReport report = arena->report();
    fmt::print("{} packs, epoch {}: high-water mark {}, most alive {}\n", arguments.creep_packs,
               epoch, report.high_water, report.peak);
    results.push_back({{"network", work.name},
                       {"packs", arguments.creep_packs},
                       {"epoch", epoch},
                       {"high_water_bytes", report.high_water},
                       {"peak_bytes", report.peak}});
  }
}

}  // namespace

namespace {

int run_program(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"Whole updates of transformer stacks on a GPU"};
  app.add_option("--lengths", arguments.lengths, "TSV of utterances: name, samples, seconds, ...")
      ->required();
  app.add_option("--stack", arguments.stack, "12x768, 24x1024 or 48x1280");
  app.add_option("--model", arguments.model, "A preset instead of a stack, such as wav2vec2-large");
  app.add_option("--numerics", arguments.numerics, "fp32, tf32, bf16-exact, bf16-lean or fp16");
  app.add_option("--state", arguments.state, "Where the optimizer's state lies: device or host");
  app.add_option("--batch", arguments.effective_batch, "Utterances of an update");
  app.add_option("--tier", arguments.tiers, "Tiers to run");
  app.add_option("--budget", arguments.budgets, "Budgets to keep, instead of all memory");
  app.add_option("--warmup", arguments.warmup, "Updates before those");
  app.add_option("--steps", arguments.steps, "Updates that are timed");
  app.add_option("--creep", arguments.creep_packs, "Packs to run three times over, instead");
  app.add_option("--json", arguments.json, "File for the results");
  CLI11_PARSE(app, argc, argv);
  const Lengths lengths = bench::read_lengths(arguments.lengths);
  const device::RunDevice device = device::open_device("cuda");
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  if (arguments.creep_packs > 0) {
    run_creep(arguments, lengths, device, results);
  } else if (!arguments.budgets.empty()) {
    run_budgets(arguments, lengths, device, results);
  } else {
    run_tiers(arguments, lengths, device, results);
  }
  if (!arguments.json.empty()) std::ofstream(arguments.json) << results.dump(2) << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::report_errors("gpu_stack", [&] { return run_program(argc, argv); });
}
