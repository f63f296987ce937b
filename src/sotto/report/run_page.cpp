#include "sotto/report/run_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "sotto/core/build_info.h"
#include "sotto/core/units.h"
#include "sotto/report/run_figures.h"
#include "sotto/report/run_tables.h"

namespace sotto::report {

namespace {

constexpr int64_t kFormatVersionOfReport = 1;

std::string footer_text() {
  const BuildInfo build = build_info();
  return fmt::format("Written by sotto {}, commit {}.", build.version, build.commit);
}

void add_figure(Section& section, Figure figure) {
  if (!is_empty(figure)) section.add(std::move(figure));
}

void add_table(Section& section, DataTable table) {
  if (!table.is_empty()) section.add(std::move(table));
}

std::string subtitle_of(const RunContent& run) {
  std::string text;
  const auto add = [&](const std::string& part) {
    if (!part.empty()) text += (text.empty() ? "" : " · ") + part;
  };
  if (run.facts) {
    add(run.facts->model);
    if (run.facts->num_parameters > 0) add(format_count(run.facts->num_parameters) + " parameters");
    add(run.facts->device);
  }
  add(run.setting("numerics"));
  return text;
}

std::string steps_detail(const RunContent& run) {
  if (run.total_steps() < run.last_step() || run.total_steps() == 0) return "";
  return fmt::format("of {}", format_count(run.total_steps()));
}

std::string peak_detail(const RunContent& run) {
  if (!run.facts || run.facts->arena_bytes <= 0) return "";
  return fmt::format(
      "{:.0f} % of the budget of {}",
      100.0 * static_cast<double>(run.peak_bytes()) / static_cast<double>(run.facts->arena_bytes),
      format_bytes(run.facts->arena_bytes));
}

std::vector<KeyFigure> key_figures_of(const RunContent& run) {
  std::vector<KeyFigure> figures = {{.name = "State", .value = name_of(run.state), .key = "state"},
                                    {.name = "Steps",
                                     .value = format_count(run.last_step()),
                                     .detail = steps_detail(run),
                                     .key = "steps"}};
  if (const RunEvaluation* best = run.best_evaluation())
    figures.push_back({.name = "Best " + metric_of(run),
                       .value = quality_text(run, *best->quality()),
                       .detail = fmt::format("at step {}", format_count(best->step)),
                       .key = "best_quality"});
  if (run.steps.empty()) return figures;
  figures.push_back(
      {.name = "Training loss",
       .value = format_value(run.steps.back().loss, Unit::kNumber),
       .detail = fmt::format("{} at first", format_value(run.steps.front().loss, Unit::kNumber)),
       .key = "loss"});
  figures.push_back({.name = "Peak memory",
                     .value = format_bytes(run.peak_bytes()),
                     .detail = peak_detail(run),
                     .key = "peak_bytes"});
  figures.push_back(
      {.name = "Speed",
       .value = speed_text(run),
       .detail = fmt::format("{} per step", format_duration(run.median_step_seconds())),
       .key = "speed"});
  figures.push_back({.name = "Training time",
                     .value = format_duration(run.training_seconds()),
                     .detail = run.evaluation_seconds() > 0.0
                                   ? fmt::format("{} more of evaluation",
                                                 format_duration(run.evaluation_seconds()))
                                   : "",
                     .key = "training_seconds"});
  const int64_t num_recoveries = run.count(RunEvent::Kind::kOutOfMemory);
  figures.push_back({.name = "Out of memory",
                     .value = num_recoveries == 0 ? "never" : format_count(num_recoveries),
                     .detail = num_recoveries == 0   ? ""
                               : num_recoveries == 1 ? "time; the step was repeated"
                                                     : "times; the steps were repeated",
                     .key = "recoveries"});
  return figures;
}

void add_notices(Section& section, const RunContent& run) {
  if (!run.error.empty())
    section.add(Notice{.title = "The run ended with an error", .lines = {run.error}});
  if (run.state == RunState::kInterrupted && !run.steps.empty())
    section.add(Notice{.title =
                           "The run was interrupted: it has no last step, and no process holds "
                           "its folder. sotto train --resume continues it."});
  if (run.state == RunState::kRunning)
    section.add(Notice{.title = "The run is not complete: a process is working in its folder."});
  if (!run.problems.empty())
    section.add(Notice{.title = "Left out, because it could not be read", .lines = run.problems});
}

void add_note_without_prediction(Section& section, const RunContent& run) {
  if (time_table(run).is_empty() && !run.steps.empty())
    section.add(
        Paragraph{"The parts of a step's time are not known: all settings were given, so "
                  "that the planner had nothing to decide and predicted no time."});
}

}  // namespace

Page run_page(const RunContent& run) {
  Page page{.title = run.name,
            .subtitle = subtitle_of(run),
            .key_figures = key_figures_of(run),
            .sections = {},
            .footer = footer_text()};
  add_notices(page.add_section(""), run);
  Section& learning = page.add_section("Learning");
  add_figure(learning, loss_figure(run));
  add_figure(learning, quality_figure(run));
  add_figure(learning, rate_figure(run));
  add_figure(learning, gradient_figure(run));
  add_table(learning, stage_table(run));
  Section& memory = page.add_section("Memory");
  add_figure(memory, memory_figure(run));
  add_figure(memory, category_figure(run));
  add_figure(memory, timeline_figure(run));
  add_table(memory, memory_table(run));
  Section& time = page.add_section("Time");
  add_figure(time, throughput_figure(run));
  add_figure(time, run_time_figure(run));
  add_figure(time, step_time_figure(run));
  add_figure(time, padding_figure(run));
  add_note_without_prediction(time, run);
  Section& events = page.add_section("Events");
  if (run.events.empty() && !run.steps.empty()) {
    events.add(
        Paragraph{"No step ran out of memory, overflowed or was repeated, no utterance was "
                  "skipped, and the run was never resumed."});
  } else {
    add_table(events, event_table(run));
  }
  add_table(page.add_section("Evaluations"), evaluation_table(run));
  Section& configuration = page.add_section("Configuration");
  add_table(configuration, decision_table(run));
  add_table(configuration, setting_table(run));
  Section& run_and_machine = page.add_section("Run and machine");
  add_table(run_and_machine, summary_table(run));
  add_table(run_and_machine, environment_table(run));
  return page;
}

Page comparison_page(std::span<const RunContent> runs) {
  Page page{.title = fmt::format("Comparison of {} runs", runs.size()),
            .sections = {},
            .footer = footer_text()};
  Section& notices = page.add_section("");
  const std::vector<std::string> names = distinct_names(runs);
  for (size_t i = 0; i < runs.size(); ++i) {
    page.subtitle += (i == 0 ? "" : ", ") + names[i];
    std::vector<std::string> lines = runs[i].problems;
    if (!runs[i].error.empty()) lines.push_back(runs[i].error);
    if (!lines.empty()) notices.add(Notice{.title = "Problems of " + names[i], .lines = lines});
  }
  const bool is_mixed = std::ranges::any_of(
      runs, [&](const RunContent& run) { return run.is_text() != runs.front().is_text(); });
  if (is_mixed)
    notices.add(
        Paragraph{fmt::format("The runs have different tasks: charts show quality and "
                              "speed only of those whose metric is {}.",
                              metric_of(runs.front()))});
  std::vector<DataTable> tables = comparison_tables(runs);
  add_table(page.add_section("Results"), std::move(tables.front()));
  Section& charts = page.add_section("Charts");
  for (Figure& figure : comparison_figures(runs)) add_figure(charts, std::move(figure));
  Section& configuration = page.add_section("Configuration");
  for (size_t i = 1; i < tables.size(); ++i) add_table(configuration, std::move(tables[i]));
  return page;
}

std::string runs_markdown(std::span<const RunContent> runs) {
  std::string text =
      fmt::format("# {}\n", runs.size() == 1 ? runs.front().name : comparison_page(runs).title);
  const std::vector<DataTable> tables =
      runs.size() == 1 ? tables_of(runs.front(), /*has_settings=*/true) : comparison_tables(runs);
  for (const DataTable& table : tables)
    if (!table.is_empty()) text += "\n" + markdown_text(table);
  for (const RunContent& run : runs)
    for (const std::string& problem : run.problems)
      text += fmt::format("\nLeft out of {}: {}\n", run.name, problem);
  return text;
}

nlohmann::ordered_json runs_json(std::span<const RunContent> runs) {
  nlohmann::ordered_json json = {{"format_version", kFormatVersionOfReport},
                                 {"runs", rows_json(comparison_table(runs))}};
  for (size_t i = 0; i < runs.size(); ++i) {
    nlohmann::ordered_json& entry = json["runs"][i];
    entry["folder"] = runs[i].folder.string();
    entry["error"] = cell_of(runs[i].error).value;
    entry["left_out"] = runs[i].problems;
    for (const DataTable& table : tables_of(runs[i], /*has_settings=*/true))
      if (table.name != "summary") entry[table.name] = rows_json(table);
  }
  return json;
}

}  // namespace sotto::report
