#include "cli/views/plan_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "sotto/core/config/config_json.h"
#include "sotto/core/config/config_yaml.h"
#include "sotto/core/files/atomic_folder.h"
#include "sotto/core/units.h"
#include "sotto/device/arena.h"
#include "sotto/report/table.h"

namespace sotto::cli {

namespace {

using device::Category;
using plan::Candidate;
using report::Align;
using report::Table;

std::string speed_text(const Candidate& candidate, const plan::PlanFacts& facts) {
  return fmt::format("{} {}", format_digits(candidate.speed()), facts.task->speed_unit);
}

double run_seconds(const Candidate& candidate, const plan::PlanFacts& facts) {
  return facts.run_length / candidate.speed();
}

double run_cost(const Candidate& candidate, const plan::PlanFacts& facts) {
  return facts.price * run_seconds(candidate, facts) / 3600.0;
}

// Returns a text such as ", which costs 12.30".
std::string cost_text(const Candidate& candidate, const plan::PlanFacts& facts) {
  if (facts.price == 0.0) return "";
  return fmt::format(", which costs {:.2f}", run_cost(candidate, facts));
}

double stage_seconds(const plan::PlannedStage& stage, const Candidate& candidate) {
  return stage.length / candidate.speed();
}

// Empty for a run without stages.
std::string stages_table(const Candidate& candidate, const plan::PlanFacts& facts) {
  if (facts.stages.empty()) return "";
  Table table({{"stage"},
               {"samples"},
               {std::string(facts.task->items), Align::kRight},
               {"updates", Align::kRight},
               {"time", Align::kRight}});
  int64_t number = 0, updates = 0;
  for (const plan::PlannedStage& stage : facts.stages) {
    table.add_row({fmt::format("{}", ++number), stage.name, fmt::format("{}", stage.num_samples),
                   fmt::format("{}", stage.num_steps),
                   format_duration(stage_seconds(stage, candidate))});
    updates += stage.num_steps;
  }
  table.add_rule();
  table.add_row({"total", "", "", fmt::format("{}", updates),
                 format_duration(run_seconds(candidate, facts))});
  return table.to_string() + "\n";
}

std::string bytes_table(const Candidate& candidate, const plan::PlanFacts& facts) {
  Table table({{"memory"}, {"at the peak", Align::kRight}});
  const device::MemoryReport& worst = candidate.fit.worst;
  for (int i = 0; i < device::kNumCategories; ++i) {
    const auto category = static_cast<Category>(i);
    table.add_row({std::string(device::name_of(category)),
                   format_bytes(worst.at_peak[static_cast<size_t>(i)])});
  }
  const int64_t gaps = worst.high_water - worst.peak;
  table.add_row({"fragmentation", format_bytes(gaps)});
  if (facts.constant_bytes > 0) {
    table.add_row({facts.is_elsewhere ? "driver and libraries (allowance)" : "driver and libraries",
                   format_bytes(facts.constant_bytes)});
  }
  table.add_rule();
  table.add_row({fmt::format("total, in {}", worst.peak_moment.to_string()),
                 format_bytes(worst.high_water + facts.constant_bytes)});
  table.add_row({"budget", format_bytes(facts.budget_bytes)});
  return table.to_string();
}

std::string host_table(const plan::HostMemoryPlan& memory) {
  Table table({{"host memory"}, {"at most", Align::kRight}});
  const auto add = [&](const char* what, int64_t bytes) {
    if (bytes > 0) table.add_row({what, format_bytes(bytes)});
  };
  add("offloaded state and layer inputs", memory.kept);
  add("prefetched audio", memory.decoded_ahead);
  add("cached audio", memory.audio_cache);
  add("checkpoint being written", memory.checkpoint);
  table.add_rule();
  table.add_row({"total", format_bytes(memory.total())});
  return table.to_string();
}

// Formats with one decimal place, or with enough for two significant digits.
std::string milliseconds(double seconds) {
  const double ms = 1e3 * seconds;
  return ms < 0.95 ? format_digits(ms) : fmt::format("{:.1f}", ms);
}

// Lists the kernels that take the most time, and the sum of the others.
std::string time_table(const Candidate& candidate) {
  Table table({{"time of a step"}, {"ms", Align::kRight}});
  for (const plan::TimePart& part : plan::parts_of(candidate.time))
    table.add_row({part.name, milliseconds(part.seconds)});
  table.add_rule();
  table.add_row({fmt::format("total, {} micro-batch{}", candidate.micro_batches,
                             candidate.micro_batches == 1 ? "" : "es"),
                 milliseconds(candidate.time.total_s())});
  return table.to_string();
}

std::string candidates_table(const plan::Plan& plan, const plan::PlanFacts& facts) {
  Table table({{"alternatives"},
               {"state"},
               {"tier"},
               {"memory", Align::kRight},
               {"speed", Align::kRight},
               {"whole run", Align::kRight}});
  const auto add = [&](const Candidate& candidate) {
    table.add_row({std::string(name_of(candidate.config.numerics, train::kNumerics)),
                   std::string(name_of(candidate.config.optimizer.state, optim::kStateLocations)),
                   candidate.config.tier.to_string(),
                   format_bytes(candidate.fit.worst.high_water + facts.constant_bytes),
                   speed_text(candidate, facts), format_duration(run_seconds(candidate, facts))});
  };
  add(plan.best);
  if (!plan.others.empty()) table.add_rule();
  for (const Candidate& candidate : plan.others) add(candidate);
  return table.to_string();
}

nlohmann::ordered_json candidate_json(const Candidate& candidate, const plan::PlanFacts& facts) {
  const device::MemoryReport& worst = candidate.fit.worst;
  nlohmann::ordered_json categories;
  for (int i = 0; i < device::kNumCategories; ++i)
    categories[std::string(device::name_of(static_cast<Category>(i)))] =
        worst.at_peak[static_cast<size_t>(i)];
  return {{"numerics", name_of(candidate.config.numerics, train::kNumerics)},
          {"state", name_of(candidate.config.optimizer.state, optim::kStateLocations)},
          {"tier", candidate.config.tier.to_string()},
          {"max_frames", candidate.config.max_frames},
          {"micro_batches", candidate.micro_batches},
          {"arena_bytes", worst.high_water},
          {"total_bytes", worst.high_water + facts.constant_bytes},
          {"host_bytes", worst.host_peak},
          {"peak_bytes", categories},
          {"peak_moment", worst.peak_moment.to_string()},
          {"step_seconds", candidate.time.total_s()},
          {"speed", candidate.speed()},
          {"run_seconds", run_seconds(candidate, facts)},
          {"run_cost", run_cost(candidate, facts)}};
}

// On a CPU host memory is part of the budget: null, unless something is kept there.
nlohmann::ordered_json host_budget_json(const plan::PlanRequest& request) {
  if (!request.target.is_cuda() && !request.config.keeps_on_host()) return nullptr;
  return request.budget.host_bytes;
}

}  // namespace

std::string plan_text(const plan::Plan& plan, const plan::PlanRequest& request,
                      const plan::PlanFacts& facts) {
  std::string text;
  if (request.open.numerics)
    text += fmt::format("Numerics: {} (chosen automatically)\n",
                        name_of(plan.best.config.numerics, train::kNumerics));
  text += fmt::format("{}{}, {}: {}, {} for {} of {}{}\n\n", facts.device_name,
                      facts.is_elsewhere ? " (by its data sheet)" : "",
                      format_bytes(facts.budget_bytes), speed_text(plan.best, facts),
                      format_duration(run_seconds(plan.best, facts)), facts.run_name,
                      facts.data_name, cost_text(plan.best, facts));
  text += stages_table(plan.best, facts);
  text += bytes_table(plan.best, facts) + "\n" + host_table(facts.host.memory) + "\n" +
          time_table(plan.best) + "\n" + candidates_table(plan, facts) + "\n";
  for (const plan::Reason& reason : reasons_of(plan, request, facts.host))
    text += fmt::format("{}: {}: {}\n", reason.key, reason.value, reason.why);
  return text;
}

nlohmann::ordered_json plan_json(const plan::Plan& plan, const plan::PlanRequest& request,
                                 const plan::PlanFacts& facts) {
  nlohmann::ordered_json json = {{"format_version", 1},
                                 {"device", facts.device_name},
                                 {"elsewhere", facts.is_elsewhere},
                                 {"budget_bytes", facts.budget_bytes},
                                 {"constant_bytes", facts.constant_bytes},
                                 {"host_budget_bytes", host_budget_json(request)},
                                 {"data", facts.data_name},
                                 {"best", candidate_json(plan.best, facts)}};
  for (const auto& [kernel, seconds] : plan.best.time.by_kernel_s)
    json["best"]["kernel_seconds"][kernel] = seconds;
  json["best"]["waiting_seconds"] = plan.best.time.waiting_s;
  for (const plan::PlannedStage& stage : facts.stages)
    json["stages"].push_back({{"name", stage.name},
                              {"samples", stage.num_samples},
                              {"steps", stage.num_steps},
                              {"seconds", stage_seconds(stage, plan.best)}});
  for (const Candidate& candidate : plan.others)
    json["others"].push_back(candidate_json(candidate, facts));
  const plan::HostMemoryPlan& host = facts.host.memory;
  json["host_bytes"] = {{"kept", host.kept},
                        {"decoded_ahead", host.decoded_ahead},
                        {"audio_cache", host.audio_cache},
                        {"checkpoint", host.checkpoint}};
  for (const plan::Reason& reason : reasons_of(plan, request, facts.host))
    json["reasons"].push_back({{"key", reason.key}, {"value", reason.value}, {"why", reason.why}});
  return json;
}

std::string outlook_text(const std::vector<plan::Outlook>& outlooks, const plan::Candidate& best,
                         const plan::PlanFacts& facts) {
  Table table({{"budget"},
               {"numerics"},
               {"state"},
               {"tier"},
               {"speed", Align::kRight},
               {"relative speed", Align::kRight}});
  for (const plan::Outlook& outlook : outlooks) {
    const std::string budget = format_bytes(outlook.arena_bytes + facts.constant_bytes);
    if (!outlook.candidate) {
      table.add_row({budget, "does not fit", "", "", "", ""});
      continue;
    }
    const train::RunConfig& config = outlook.candidate->config;
    table.add_row({budget, std::string(name_of(config.numerics, train::kNumerics)),
                   std::string(name_of(config.optimizer.state, optim::kStateLocations)),
                   config.tier.to_string(), speed_text(*outlook.candidate, facts),
                   fmt::format("{:.2f}x", outlook.candidate->speed() / best.speed())});
  }
  return table.to_string();
}

nlohmann::ordered_json outlook_json(const std::vector<plan::Outlook>& outlooks,
                                    const plan::PlanFacts& facts) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const plan::Outlook& outlook : outlooks) {
    nlohmann::ordered_json entry = {{"budget_bytes", outlook.arena_bytes + facts.constant_bytes}};
    if (outlook.candidate) entry["best"] = candidate_json(*outlook.candidate, facts);
    json.push_back(std::move(entry));
  }
  return json;
}

std::string comparison_text(std::string_view what, const std::vector<ComparedPlan>& plans) {
  std::set<std::string_view> units;
  for (const ComparedPlan& row : plans)
    if (row.plan) units.insert(row.facts.task->speed_unit);
  const bool has_price =
      std::ranges::any_of(plans, [](const ComparedPlan& row) { return row.facts.price > 0.0; });
  std::vector<report::Column> columns = {
      {std::string(what)},
      {"numerics"},
      {"state"},
      {"tier"},
      {"parts", Align::kRight},
      {"memory", Align::kRight},
      {units.size() == 1 ? std::string(*units.begin()) : "speed", Align::kRight},
      {"whole run", Align::kRight}};
  if (has_price) columns.push_back({"cost", Align::kRight});
  const size_t num_columns = columns.size();
  Table table(std::move(columns));
  std::string refusals;
  for (const ComparedPlan& row : plans) {
    std::vector<std::string> cells = {row.name, "cannot run"};
    if (row.plan) {
      const Candidate& candidate = row.plan->best;
      cells = {
          row.name,
          std::string(name_of(candidate.config.numerics, train::kNumerics)),
          std::string(name_of(candidate.config.optimizer.state, optim::kStateLocations)),
          candidate.config.tier.to_string(),
          std::to_string(candidate.micro_batches),
          format_bytes(candidate.fit.worst.high_water + row.facts.constant_bytes),
          units.size() > 1 ? speed_text(candidate, row.facts) : format_digits(candidate.speed()),
          format_duration(run_seconds(candidate, row.facts))};
      if (has_price) cells.push_back(fmt::format("{:.2f}", run_cost(candidate, row.facts)));
    } else {
      refusals += fmt::format("\n{}: {}\n", row.name, row.refused);
    }
    cells.resize(num_columns);
    table.add_row(std::move(cells));
  }
  return table.to_string() + refusals;
}

nlohmann::ordered_json comparison_json(const std::vector<ComparedPlan>& plans) {
  nlohmann::ordered_json json = {{"format_version", 1}, {"plans", nlohmann::json::array()}};
  for (const ComparedPlan& row : plans) {
    nlohmann::ordered_json entry = {{"name", row.name}};
    if (row.plan) {
      entry["best"] = candidate_json(row.plan->best, row.facts);
    } else {
      entry["refused"] = row.refused;
    }
    json["plans"].push_back(std::move(entry));
  }
  return json;
}

void write_plan_file(const std::filesystem::path& path, const plan::Plan& plan,
                     const plan::PlanRequest& request, const plan::HostChoices& host) {
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path());
  const ConfigNode tree = plan::write_plan(plan, request, host);
  const std::string text = path.extension() == ".json" ? format_json(tree) : format_yaml(tree);
  write_text_synced(path, text);
}

}  // namespace sotto::cli
