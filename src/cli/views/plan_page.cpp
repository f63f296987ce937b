#include "cli/views/plan_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "sotto/core/build_info.h"
#include "sotto/core/units.h"
#include "sotto/device/budget.h"
#include "sotto/device/device_table.h"
#include "sotto/plan/explanation.h"
#include "sotto/report/bar_chart.h"
#include "sotto/report/run_figures.h"
#include "sotto/report/scatter_chart.h"

namespace sotto::cli {

namespace {

using plan::Candidate;
using plan::MadePlan;
using plan::PlanFacts;
using report::cell_of;
using report::DataTable;
using report::Unit;

// The order in which categories are stacked: what a step keeps throughout comes first.
constexpr std::array kStacked = {device::Category::kWeights,   device::Category::kGradients,
                                 device::Category::kOptimizer, device::Category::kActivations,
                                 device::Category::kWorkspace, device::Category::kData};

// Cards with less or more than these shares of the plan's budget are not evaluated.
constexpr double kLeastShare = 0.5;
constexpr double kMostShare = 3.0;

std::string speed_of(const Candidate& candidate, const PlanFacts& facts) {
  return fmt::format("{} {}", format_digits(candidate.speed()), facts.task->speed_unit);
}

double run_length_s(const Candidate& candidate, const PlanFacts& facts) {
  return facts.run_length / candidate.speed();
}

double total_bytes(const Candidate& candidate, const PlanFacts& facts) {
  return static_cast<double>(candidate.fit.worst.high_water + facts.constant_bytes);
}

std::vector<report::KeyFigure> key_figures_of(const MadePlan& made) {
  const PlanFacts& facts = made.facts;
  const Candidate& best = made.plan.best;
  const double needed = total_bytes(best, facts);
  std::vector<report::KeyFigure> figures = {
      {.name = "Budget", .value = format_bytes(facts.budget_bytes), .key = "budget_bytes"},
      {.name = "Largest step",
       .value = report::format_value(needed, Unit::kBytes),
       .detail = fmt::format("{:.0f} % of the budget",
                             100.0 * needed / static_cast<double>(facts.budget_bytes)),
       .key = "needed_bytes"},
      {.name = "Speed", .value = speed_of(best, facts), .key = "speed"},
      {.name = "Time per step",
       .value = format_duration(best.time.total_s()),
       .detail = fmt::format("{} micro-{}", best.micro_batches,
                             best.micro_batches == 1 ? "batch" : "batches"),
       .key = "step_seconds"},
      {.name = "The run",
       .value = format_duration(run_length_s(best, facts)),
       .detail = facts.run_name,
       .key = "run_seconds"},
      {.name = "Numerics",
       .value = std::string(name_of(best.config.numerics, train::kNumerics)),
       .key = "numerics"}};
  if (facts.price > 0.0)
    figures.push_back(
        {.name = "Cost",
         .value = fmt::format("{:.2f}", facts.price * run_length_s(best, facts) / 3600.0),
         .detail = fmt::format("at {} per hour", facts.price),
         .key = "cost"});
  return figures;
}

// Budget of a run that is given only the card, for cards of each advertised size in gigabytes; of
// several cards of a size the least.
std::map<int64_t, int64_t> usual_cards() {
  std::map<int64_t, int64_t> cards;
  for (const device::KnownDevice& card : device::known_devices()) {
    const int64_t budget =
        std::llround(device::kDefaultBudgetShare * static_cast<double>(card.usable_bytes()));
    const auto [entry, is_new] = cards.emplace(card.nominal_gb, budget);
    if (!is_new) entry->second = std::min(entry->second, budget);
  }
  return cards;
}

// "24 GB card" for the budget of such a card; empty for other budgets.
std::string card_of(int64_t budget_bytes) {
  for (const auto& [gigabytes, bytes] : usual_cards())
    if (bytes == budget_bytes) return fmt::format("{} GB card", gigabytes);
  return "";
}

report::Figure curve_figure(const MadePlan& made, const std::vector<plan::Outlook>& outlooks) {
  const PlanFacts& facts = made.facts;
  report::ScatterChart chart{.x = {.title = "budget", .unit = Unit::kBytes},
                             .y = {.title = std::string(facts.task->speed_unit)},
                             .is_connected = true};
  int64_t refused = 0;
  std::string numerics;
  for (const plan::Outlook& outlook : outlooks) {
    const int64_t budget = outlook.arena_bytes + facts.constant_bytes;
    if (!outlook.candidate) {
      refused = std::max(refused, budget);
      continue;
    }
    const bool is_plan = budget == facts.budget_bytes;
    // Named where it changes.
    const std::string before = std::exchange(
        numerics, std::string(name_of(outlook.candidate->config.numerics, train::kNumerics)));
    const std::string name = before == numerics ? "" : numerics;
    chart.points.push_back({.x = static_cast<double>(budget),
                            .y = outlook.candidate->speed(),
                            .name = is_plan ? "this plan" : name,
                            .style = is_plan ? 1 : 0});
  }
  if (made.request.target.is_cuda()) {
    for (const auto& [gigabytes, bytes] : usual_cards())
      chart.columns.push_back(
          {.name = fmt::format("{} GB", gigabytes), .value = static_cast<double>(bytes)});
  }
  report::Figure figure{.title = "Speed against memory",
                        .description = fmt::format(
                            "The settings that would be chosen for other budgets, at the rates of "
                            "{}: the most exact numerics that are not much slower.",
                            facts.device_name),
                        .name = "speed_against_memory"};
  if (!chart.columns.empty())
    figure.description +=
        fmt::format(" Vertical lines: usual cards, of which a run takes {:.0f} %.",
                    100.0 * device::kDefaultBudgetShare);
  if (refused > 0)
    figure.description += fmt::format(" It does not fit into {}.", format_bytes(refused));
  if (!chart.is_empty()) figure.drawing = draw(chart);
  return figure;
}

// Returns the bytes of the largest step, as in the plan's table in the terminal.
report::Figure largest_step_figure(const MadePlan& made) {
  const device::MemoryReport& worst = made.plan.best.fit.worst;
  report::BarChart chart{.value = {.title = "memory", .unit = Unit::kBytes}, .rows = {}};
  const auto add = [&](const std::string& name, int64_t bytes) {
    if (bytes > 0) chart.rows.push_back({.name = name, .values = {static_cast<double>(bytes)}});
  };
  for (const device::Category category : kStacked)
    add(std::string(name_of(category)), worst.at_peak[static_cast<size_t>(category)]);
  add("fragmentation", worst.high_water - worst.peak);
  add("driver and libraries", made.facts.constant_bytes);
  report::Figure figure{
      .title = "Bytes of the largest step",
      .description = fmt::format("At its peak: {}.", worst.peak_moment.to_string()),
      .name = "largest_step"};
  if (!chart.is_empty()) figure.drawing = draw(chart);
  return figure;
}

report::Figure component_figure(const MadePlan& made,
                                const std::vector<plan::Components>& components) {
  report::BarChart chart{
      .value = {.title = "memory", .unit = Unit::kBytes},
      .series = {"weights", "gradients", "moments", "activations", "other", "driver and libraries"},
      .rows = {},
      .is_stacked = true,
      .limits = {{.name = "budget", .value = static_cast<double>(made.facts.budget_bytes)}}};
  if (made.facts.constant_bytes == 0) chart.series.pop_back();
  for (const plan::Components& one : components) {
    report::BarRow row{.name = std::string(name_of(one.numerics, train::kNumerics)), .values = {}};
    for (const int64_t bytes :
         {one.weights + one.remainder, one.gradients, one.momentum + one.variance, one.activations,
          one.other, made.facts.constant_bytes})
      if (row.values.size() < chart.series.size()) row.values.push_back(static_cast<double>(bytes));
    chart.rows.push_back(std::move(row));
  }
  report::Figure figure{
      .title = "Bytes by component",
      .description =
          "For each arithmetic, with the micro-batches of this plan and the optimizer's "
          "state on the device.",
      .name = "components"};
  if (!chart.is_empty()) figure.drawing = draw(chart);
  return figure;
}

report::Figure time_figure(const Candidate& best) {
  report::BarChart chart{.value = {.title = "time", .unit = Unit::kSeconds}, .rows = {}};
  for (const plan::TimePart& part : plan::parts_of(best.time))
    if (part.seconds > 0.0) chart.rows.push_back({.name = part.name, .values = {part.seconds}});
  report::Figure figure{.title = "Where the time of a step goes",
                        .description = fmt::format("A step of median length: {}.",
                                                   format_duration(best.time.total_s())),
                        .name = "step_time"};
  if (!chart.is_empty()) figure.drawing = draw(chart);
  return figure;
}

report::Figure plan_timeline_figure(const std::vector<device::MomentPeak>& timeline) {
  report::StepMemory memory;
  for (const device::Category category : kStacked)
    memory.categories.emplace_back(name_of(category));
  for (const device::MomentPeak& peak : timeline) {
    report::StepMoment moment{.phase = device::Moment{.phase = peak.moment.phase}.to_string(),
                              .micro_batch = peak.moment.micro_batch,
                              .name = peak.moment.to_string(),
                              .bytes = peak.bytes,
                              .by_category = {}};
    for (const device::Category category : kStacked)
      moment.by_category.push_back(peak.by_category[static_cast<size_t>(category)]);
    if (peak.bytes > memory.planned_peak) {
      memory.planned_peak = peak.bytes;
      memory.peak_moment = moment.name;
    }
    memory.timeline.push_back(std::move(moment));
  }
  report::Figure figure = step_timeline_figure(memory);
  figure.title = "Memory over a step of median length";
  return figure;
}

DataTable stage_table(const MadePlan& made) {
  DataTable table{.name = "stages",
                  .title = "Stages",
                  .columns = {{.key = "stage"},
                              {.key = "name", .title = "samples", .align = report::Align::kLeft},
                              {.key = "samples", .title = std::string(made.facts.task->items)},
                              {.key = "steps", .title = "updates"},
                              {.key = "seconds", .title = "time"}},
                  .rows = {}};
  const auto count = [](int64_t value) {
    return cell_of(static_cast<double>(value), Unit::kCount);
  };
  for (const plan::PlannedStage& stage : made.facts.stages)
    table.rows.push_back({count(std::ssize(table.rows) + 1), cell_of(stage.name),
                          count(stage.num_samples), count(stage.num_steps),
                          cell_of(stage.length / made.plan.best.speed(), Unit::kSeconds)});
  return table;
}

DataTable reason_table(const MadePlan& made) {
  DataTable table{.name = "decisions",
                  .title = "Decisions and their reasons",
                  .columns = {{.key = "setting", .align = report::Align::kLeft},
                              {.key = "value", .align = report::Align::kLeft},
                              {.key = "reason", .align = report::Align::kLeft}},
                  .rows = {}};
  for (const plan::Reason& reason : reasons_of(made.plan, made.request, made.facts.host))
    table.rows.push_back({cell_of(reason.key), cell_of(reason.value), cell_of(reason.why)});
  return table;
}

DataTable budget_table(const MadePlan& made, const std::vector<plan::Outlook>& outlooks) {
  DataTable table{.name = "budgets",
                  .title = "Other budgets",
                  .columns = {{.key = "budget_bytes", .title = "budget"},
                              {.key = "card", .align = report::Align::kLeft},
                              {.key = "numerics", .align = report::Align::kLeft},
                              {.key = "state", .align = report::Align::kLeft},
                              {.key = "tier", .align = report::Align::kLeft},
                              {.key = "speed"},
                              {.key = "relative_speed", .title = "relative speed"},
                              {.key = "run_seconds", .title = "the run"}},
                  .rows = {}};
  for (const plan::Outlook& outlook : outlooks) {
    const int64_t budget = outlook.arena_bytes + made.facts.constant_bytes;
    std::vector<report::DataCell> row = {
        cell_of(static_cast<double>(budget), Unit::kBytes),
        cell_of(budget == made.facts.budget_bytes ? "this plan" : card_of(budget))};
    if (outlook.candidate) {
      const Candidate& candidate = *outlook.candidate;
      const double relative = candidate.speed() / made.plan.best.speed();
      row.insert(
          row.end(),
          {cell_of(std::string(name_of(candidate.config.numerics, train::kNumerics))),
           cell_of(std::string(name_of(candidate.config.optimizer.state, optim::kStateLocations))),
           cell_of(candidate.config.tier.to_string()),
           {.text = speed_of(candidate, made.facts), .value = candidate.speed()},
           {.text = fmt::format("{:.2f}x", relative), .value = relative},
           cell_of(run_length_s(candidate, made.facts), Unit::kSeconds)});
    } else {
      row.push_back(cell_of("does not fit"));
      row.resize(table.columns.size());
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

std::vector<int64_t> arenas_of_cards(const MadePlan& made) {
  std::vector<int64_t> arenas;
  if (!made.request.target.is_cuda()) return arenas;
  for (const auto& [gigabytes, bytes] : usual_cards()) {
    const double share = static_cast<double>(bytes) / static_cast<double>(made.facts.budget_bytes);
    if (share > kLeastShare && share < kMostShare && bytes > made.facts.constant_bytes)
      arenas.push_back(bytes - made.facts.constant_bytes);
  }
  return arenas;
}

report::Page plan_page(const MadePlan& made, PlanPageContent content) {
  content.outlooks.push_back({.arena_bytes = made.facts.budget_bytes - made.facts.constant_bytes,
                              .candidate = made.plan.best});
  std::ranges::sort(content.outlooks, {}, &plan::Outlook::arena_bytes);
  const PlanFacts& facts = made.facts;
  const BuildInfo build = build_info();
  report::Page page{
      .title = "Plan: " + made.model_name,
      .subtitle = fmt::format("{}{} · {} of {}", facts.device_name,
                              facts.is_elsewhere ? " (by its data sheet)" : "", facts.run_name,
                              facts.data_name),
      .key_figures = key_figures_of(made),
      .sections = {},
      .footer = fmt::format("Written by sotto {}, commit {}.", build.version, build.commit)};
  report::Section& memory = page.add_section("Memory and speed");
  for (report::Figure figure :
       {curve_figure(made, content.outlooks), component_figure(made, content.components),
        largest_step_figure(made), time_figure(made.plan.best),
        plan_timeline_figure(content.timeline)})
    if (!report::is_empty(figure)) memory.add(std::move(figure));
  if (DataTable stages = stage_table(made); !stages.is_empty())
    page.add_section("Stages").add(std::move(stages));
  page.add_section("Decisions and their reasons").add(reason_table(made));
  page.add_section("Other budgets").add(budget_table(made, content.outlooks));
  return page;
}

}  // namespace sotto::cli
