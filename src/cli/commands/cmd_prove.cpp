// `sotto prove memory`: compares the dry run with the real run, as a table or as JSON.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands/command_line.h"
#include "cli/commands/commands.h"
#include "cli/views/json_text.h"
#include "cli/views/progress.h"
#include "sotto/core/config/config.h"
#include "sotto/core/error.h"
#include "sotto/core/units.h"
#include "sotto/device/opened_device.h"
#include "sotto/nn/blocks/memory_proof.h"
#include "sotto/report/table.h"
#include "sotto/train/run/run_files.h"

namespace sotto::cli {

namespace {

using device::Category;
using nn::MemoryProof;
using nn::MemoryProofCase;
using report::Align;
using report::Table;

struct ProveOptions {
  std::string config;
  std::vector<std::string> overrides;
  std::string memory;
  bool json = false;
};

struct Row {
  MemoryProofCase step;
  MemoryProof proof;
};

nn::MemoryProofOptions read_options(const ProveOptions& options) {
  auto read = options.config.empty()
                  ? read_overrides<nn::MemoryProofOptions>(options.overrides)
                  : read_config<nn::MemoryProofOptions>(options.config, options.overrides);
  if (!options.memory.empty()) read.memory = MemorySize::parse(options.memory);
  return read;
}

std::vector<Row> run_cases(const std::vector<MemoryProofCase>& cases, int64_t budget_bytes) {
  std::vector<Row> rows;
  Progress progress("proving");
  for (const MemoryProofCase& step : cases) {
    progress.show(std::ssize(rows), std::ssize(cases), step.name());
    rows.push_back({step, nn::prove_memory(step, budget_bytes)});
  }
  return rows;
}

std::string in_mib(int64_t bytes) {
  return fmt::format("{:.2f}", static_cast<double>(bytes) / (1 << 20));
}

// Renders peaks in bytes, and their parts in MiB.
std::string proof_table(const std::vector<Row>& rows) {
  Table table({{"stack"},
               {"type"},
               {"tier"},
               {"predicted", Align::kRight},
               {"measured", Align::kRight},
               {"weights", Align::kRight},
               {"grads", Align::kRight},
               {"activ.", Align::kRight},
               {"work", Align::kRight},
               {"peak in"}});
  for (const Row& row : rows) {
    const device::MemoryReport& measured = row.proof.measured;
    const auto at_peak = [&](Category category) {
      return in_mib(measured.at_peak[static_cast<size_t>(category)]);
    };
    const device::Moment& moment = measured.peak_moment;
    table.add_row({row.step.stack_name(), row.step.type_name(), row.step.tier_name(),
                   fmt::format("{}", row.proof.predicted.peak), fmt::format("{}", measured.peak),
                   at_peak(Category::kWeights), at_peak(Category::kGradients),
                   at_peak(Category::kActivations), at_peak(Category::kWorkspace),
                   moment.to_string()});
  }
  return table.to_string();
}

// Renders library calls by type: the call that came closest to its bound.
std::string library_table(const std::vector<Row>& rows) {
  std::map<std::pair<std::string, std::string>, device::LibraryUse> nearest;
  for (const Row& row : rows) {
    for (const device::LibraryUse& use : row.proof.measured.library_calls) {
      device::LibraryUse& entry = nearest[{use.name, row.step.type_name()}];
      const int64_t slack = use.declared_bytes - use.measured_bytes;
      const bool is_nearer =
          entry.num_calls == 0 || slack < entry.declared_bytes - entry.measured_bytes;
      const int64_t calls = entry.num_calls + use.num_calls;
      const int64_t breaches = entry.num_breaches + use.num_breaches;
      if (is_nearer) entry = use;
      entry.num_calls = calls;
      entry.num_breaches = breaches;
    }
  }
  Table table({{"library call"},
               {"type"},
               {"calls", Align::kRight},
               {"declared", Align::kRight},
               {"measured", Align::kRight},
               {"beyond its bound", Align::kRight}});
  for (const auto& [key, use] : nearest) {
    table.add_row({key.first, key.second, fmt::format("{}", use.num_calls),
                   fmt::format("{}", use.declared_bytes), fmt::format("{}", use.measured_bytes),
                   fmt::format("{}", use.num_breaches)});
  }
  return table.to_string();
}

nlohmann::ordered_json to_json(const std::vector<Row>& rows, int64_t budget_bytes) {
  nlohmann::ordered_json steps = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    nlohmann::ordered_json calls = nlohmann::ordered_json::array();
    for (const device::LibraryUse& use : row.proof.measured.library_calls) {
      calls.push_back({{"name", use.name},
                       {"calls", use.num_calls},
                       {"declared_bytes", use.declared_bytes},
                       {"measured_bytes", use.measured_bytes},
                       {"beyond_bound", use.num_breaches}});
    }
    steps.push_back({{"stack", row.step.stack_name()},
                     {"type", row.step.type_name()},
                     {"tier", row.step.tier_name()},
                     {"holds", row.proof.holds()},
                     {"predicted", train::memory_json(row.proof.predicted)},
                     {"measured", train::memory_json(row.proof.measured)},
                     {"library_calls", std::move(calls)},
                     {"dry_seconds", row.proof.dry_seconds},
                     {"real_seconds", row.proof.real_seconds}});
  }
  return {{"format_version", 1}, {"budget_bytes", budget_bytes}, {"steps", std::move(steps)}};
}

std::string summary(const std::vector<Row>& rows) {
  double dry = 0.0;
  double real = 0.0;
  for (const Row& row : rows) {
    dry += row.proof.dry_seconds;
    real += row.proof.real_seconds;
  }
  return fmt::format(
      "{} steps: predicted and measured peaks are equal to the byte, by category and moment.\n"
      "Each real step ran in an arena of exactly the predicted size. Dry runs took {}, real ones "
      "{}.\n",
      rows.size(), format_duration(dry), format_duration(real));
}

void run_prove_memory(const ProveOptions& options) {
  const nn::MemoryProofOptions settings = read_options(options);
  if (settings.stacks.empty() || settings.types.empty() || settings.tiers.empty()) {
    throw ConfigError({.attempted = "proving memory",
                       .found = "an empty list of stacks, types or tiers",
                       .expected = "at least one of each"});
  }
  const int64_t budget = device::OpenedDevice(settings.memory).budget_bytes;
  const std::vector<Row> rows = run_cases(nn::cases_of(settings), budget);
  if (options.json) {
    std::cout << json_text(to_json(rows, budget));
  } else {
    std::cout << proof_table(rows)
              << "\nPeaks in bytes; weights, gradients, activations and workspace in MiB at "
              << "the peak.\n\n"
              << library_table(rows) << '\n';
  }
  for (const Row& row : rows) {
    if (row.proof.holds()) continue;
    throw InternalError({.attempted = fmt::format("proving the memory of {}", row.step.name()),
                         .found = "measured and predicted memory differ",
                         .expected = "both to be equal, and library calls within their bounds",
                         .hint = "This is a bug in sotto; please report it with the table above."});
  }
  if (!options.json) std::cout << summary(rows);
}

}  // namespace

void add_prove(CLI::App& app, const GlobalOptions&) {
  CLI::App* prove = app.add_subcommand("prove", "Prove a promise on this machine");
  prove->footer(example("  sotto prove memory --set 'stacks=[2x64x300, 4x128x600]'"));
  CLI::App* memory = prove->add_subcommand(
      "memory", "Predict the peak of training steps, run them, and compare to the byte");
  // Shared, because the callback is copied and has to outlive this function.
  auto options = std::make_shared<ProveOptions>();
  memory->add_option("--config", options->config,
                     "Settings, YAML or JSON (configs/prove_memory.yaml)");
  memory->add_option("--set", options->overrides, "Override a setting: key=value (repeatable)")
      ->allow_extra_args(false);
  add_memory_option(*memory, options->memory);
  memory->add_flag("--json", options->json, "Print JSON, bytes as whole numbers");
  memory->footer(example("  sotto prove memory --memory 500MiB --set 'stacks=[4x128x600]'"));
  memory->callback([options] { run_prove_memory(*options); });
}

}  // namespace sotto::cli
