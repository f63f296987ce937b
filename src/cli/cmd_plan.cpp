// `sotto plan`: from a budget to a run, without running it and without needing its device.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>

#include "command_line.h"
#include "commands.h"
#include "plan_view.h"
#include "run_options.h"
#include "sotto/core/config_yaml.h"
#include "sotto/core/output_file.h"
#include "sotto/device/device_table.h"
#include "sotto/device/host_info.h"
#include "sotto/plan/calibration.h"
#include "sotto/plan/device_rates.h"
#include "sotto/plan/usual_data.h"
#include "sotto/train/library_constant.h"
#include "sotto/train/run_data.h"

namespace sotto::cli {

namespace {

namespace fs = std::filesystem;

struct PlanOptions {
  RunOptions run;
  std::string out;
  bool json = false;
};

bool is_at_hand(const std::string& device) {
  return device == "cpu" || device == "cuda" || device.starts_with("cuda:");
}

// What the plan is made for: the device at hand or one of the table, and its share of the budget.
struct PlannedDevice {
  device::Target target;
  std::string name;
  int64_t budget_bytes = 0;
  int64_t constant_bytes = 0;
  int64_t host_bytes = 0;
  std::function<kernels::Rates(train::Compute)> rates;
};

// Host memory for state and inputs of layers; `auto`: three quarters of what is free here.
int64_t host_bytes_for(const MemorySize& budget) {
  const device::HostInfo host = device::read_host();
  if (budget.kind == MemorySize::Kind::kAuto) return host.free_bytes / 4 * 3;
  return device::resolve_budget(budget,
                                {.total_bytes = host.total_bytes, .free_bytes = host.free_bytes},
                                "the host", "--host-memory");
}

PlannedDevice device_elsewhere(const train::RunConfig& config) {
  const device::KnownDevice& known = device::find_device(config.device);
  const device::MemoryAvailable memory{.total_bytes = known.usable_bytes(),
                                       .free_bytes = known.usable_bytes()};
  return {.target = known.target(),
          .name = std::string(known.title),
          .budget_bytes = device::resolve_budget(config.memory, memory, known.title),
          .constant_bytes = device::KnownDevice::kLibraryAllowance,
          .host_bytes = host_bytes_for(config.host_memory),
          .rates = [&known](train::Compute compute) { return plan::rates_of(known, compute); }};
}

PlannedDevice device_here(const train::RunConfig& config) {
  const device::RunDevice device = device::open_device(config.device, {}, config.deterministic);
  const train::Compute compute = config.arithmetic().compute;
  return {.target = device.target,
          .name = device.name,
          .budget_bytes = device::resolve_budget(config.memory, device.memory, device.name),
          .constant_bytes = !device.target.is_cuda()
                                ? 0
                                : train::find_library_constant(device, compute)
                                      .value_or(device::KnownDevice::kLibraryAllowance),
          .host_bytes = device.target.is_cuda() ? host_bytes_for(config.host_memory)
                                                : device::HostMemory::kUnlimited,
          .rates = [device](train::Compute of) { return plan::rates_at_hand(device, of); }};
}

void write_file(const fs::path& path, const std::string& text) {
  if (path.has_parent_path()) fs::create_directories(path.parent_path());
  OutputFile file = OutputFile::create(path);
  file.write(std::as_bytes(std::span(text)));
  file.close();
}

void run_plan(const PlanOptions& options) {
  const ReadConfig read = read_run_config(options.run);
  train::RunConfig config = read.config;
  const PlannedDevice device =
      is_at_hand(config.device) ? device_here(config) : device_elsewhere(config);
  const bool has_data = !config.data.train.empty();
  std::unique_ptr<train::RunData> data;
  std::unique_ptr<data::Source> source;
  models::DataShape shape = plan::usual_shape(config);
  if (has_data) {
    data = train::open_run_data(config, std::nullopt, {});
    shape = data->shape();
    source = data->make_train(
        [](const data::Source&) { return std::numeric_limits<double>::infinity(); });
  } else {
    source = std::make_unique<data::ExampleList>(plan::usual_data(config));
  }
  const plan::PlanRequest request{.config = config,
                                  .open = read.open,
                                  .shape = shape,
                                  .target = device.target,
                                  .budget = {.bytes = device.budget_bytes - device.constant_bytes,
                                             .host_bytes = device.host_bytes},
                                  .rates = device.rates};
  const plan::Plan plan = plan::Planner(request, *source).plan();

  const std::vector<float> lengths = source->lengths();
  const PlanFacts facts{.device_name = device.name,
                        .is_elsewhere = !is_at_hand(config.device),
                        .budget_bytes = device.budget_bytes,
                        .constant_bytes = device.constant_bytes,
                        .data_name = has_data ? source->name()
                                              : "LibriSpeech's lengths, 1,000 of "
                                                "them: no --train was named",
                        .length = std::accumulate(lengths.begin(), lengths.end(), 0.0),
                        .is_text = config.model.is_language_model(),
                        .epochs = config.epochs};
  const fs::path folder =
      options.out.empty() ? fs::path("runs") / config.name : fs::path(options.out);
  write_file(folder / "plan.yaml", format_yaml(plan::write_plan(plan, request)));
  std::cout << (options.json ? plan_json(plan, request, facts).dump(2) + "\n"
                             : plan_text(plan, request, facts) +
                                   fmt::format("\n{} is the run's configuration\n",
                                               (folder / "plan.yaml").string()));
}

}  // namespace

void add_plan(CLI::App& app, const GlobalOptions&) {
  CLI::App* command =
      app.add_subcommand("plan", "From a memory budget to a run's settings, with reasons");
  auto options = std::make_shared<PlanOptions>();
  add_run_options(*command, options->run);
  command->get_option("--device")
      ->description("What to plan for: cpu, cuda, cuda:N, or a card by name: t4, l4, rtx4070 ...");
  command->add_option("--out", options->out, "Folder for plan.yaml (runs/NAME)");
  command->add_flag("--json", options->json, "Print the plan as JSON");
  command->footer(example("  sotto plan --model xls-r-1b --device rtx4070 --memory 8GiB"));
  command->callback([options] { run_plan(*options); });
}

}  // namespace sotto::cli
