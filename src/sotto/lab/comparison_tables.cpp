#include "sotto/lab/comparison_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sotto/core/units.h"
#include "sotto/lab/analysis.h"

namespace sotto::lab {

namespace {

using report::Align;
using report::Table;

std::string status_text(const Result& result) {
  return result.status == Result::Status::kDoesNotFit ? "does not fit" : "failed";
}

std::string bytes_text(int64_t bytes) {
  return bytes > 0 ? format_bytes(bytes) : std::string("-");
}

std::string quality_text(const Result& result, const std::optional<double>& value) {
  if (!value) return "-";
  return result.is_text() ? format_digits(*value) : fmt::format("{:.1f} %", 100.0 * *value);
}

std::string speed_up_text(const Comparison& comparison, const Result& result) {
  const double ratio = comparison.speed_up(result);
  return ratio > 0.0 ? fmt::format("{:.2f}x", ratio) : "-";
}

std::string share_text(const Comparison& comparison, const Result& result) {
  const double share = comparison.memory_share(result);
  return share > 0.0 ? fmt::format("{:+.0f} %", 100.0 * (share - 1.0)) : "-";
}

// Returns a table of experiments that were not completed, or whose settings had no effect.
Table notes_table(const Comparison& comparison) {
  Table table({{"experiment"}, {"note"}});
  for (const Result& result : comparison.rows)
    if (!result.note.empty()) table.add_row({result.name, result.note});
  return table;
}

// "7.1 %", or with seeds "7.1 % (6.8 to 7.4)".
std::string spread_text(const Comparison& comparison, const Result& result) {
  const auto found = comparison.quality.find(result.name);
  if (found == comparison.quality.end()) return "-";
  const Spread& spread = found->second;
  if (spread.num_seeds == 1) return quality_text(result, spread.mean);
  return fmt::format("{} ({} to {})", quality_text(result, spread.mean),
                     quality_text(result, spread.least), quality_text(result, spread.most));
}

// The value of a setting that the planner decided, or that was given; the last one counts.
std::string value_of(const Result& result, const std::string& key) {
  std::string value;
  for (const auto* list : {&result.settings, &result.decided}) {
    for (const std::string& setting : *list)
      if (setting.starts_with(key + "=")) value = setting.substr(key.size() + 1);
  }
  return value.empty() ? "-" : value;
}

std::string speed_text(double speed) {
  return speed > 0.0 ? format_digits(speed) : "-";
}

// "width 512, layers 6"
std::string model_text(const Result& result) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : result.model.items())
    if (value.is_primitive())
      parts.push_back(
          fmt::format("{} {}", key, value.is_string() ? value.get<std::string>() : value.dump()));
  return fmt::format("{}", fmt::join(parts, ", "));
}

// Under limits the first row is the standard run of another program: ours describe the set-up.
std::string set_up_text(const Comparison& comparison) {
  const bool is_of_limits = comparison.kind == Suite::Kind::kLimits;
  const Result& shown = is_of_limits ? comparison.rows.back() : comparison.rows.front();
  std::string text = fmt::format("Suite {} on {}\n\n", comparison.suite, comparison.dataset);
  const auto add = [&](const char* name, const std::string& value) {
    text += fmt::format("  {:<12}{}\n", name, value);
  };
  add("device", shown.device);
  add("batch",
      fmt::format("{} {}{}", shown.batch, shown.is_text() ? "rows" : "utterances",
                  shown.is_text() ? fmt::format(" of {} tokens", shown.row_tokens) : ""));
  if (comparison.kind == Suite::Kind::kSizes) return text;
  if (!is_of_limits) add("budget", format_bytes(shown.budget_bytes));
  add("steps", std::to_string(shown.num_steps));
  add("model", model_text(shown));
  add("parameters",
      fmt::format("{} million", format_digits(static_cast<double>(shown.num_parameters) / 1e6)));
  return text;
}

std::string summary_of_techniques(const Comparison& comparison) {
  std::string text;
  for (const Result& result : comparison.rows) {
    text += fmt::format("  {}: {}.", result.name, result.title.empty() ? "no title" : result.title);
    if (result.is_done() && comparison.memory_share(result) > 0.0)
      text +=
          fmt::format(" Peak {} ({}), {} per step ({}).", format_bytes(result.peak_bytes()),
                      share_text(comparison, result), format_duration(result.seconds_per_step),
                      speed_up_text(comparison, result));
    if (!result.note.empty()) text += fmt::format(" {}", result.note);
    text += "\n";
  }
  return text;
}

Table training_table(const Comparison& comparison) {
  const bool is_text = comparison.rows.front().is_text();
  Table table({{"experiment"},
               {"batch", Align::kRight},
               {is_text ? "train ppl" : "train loss", Align::kRight},
               {is_text ? "valid ppl" : "valid WER", Align::kRight},
               {"s/step", Align::kRight},
               {"total", Align::kRight},
               {"speed-up", Align::kRight}});
  for (const Result& result : comparison.rows) {
    if (!result.is_done()) {
      table.add_row(
          {result.name, std::to_string(result.batch), status_text(result), "-", "-", "-", "-"});
      continue;
    }
    table.add_row({result.name, std::to_string(result.batch),
                   format_digits(is_text ? result.train_perplexity() : result.train_loss),
                   quality_text(result, result.quality()), format_digits(result.seconds_per_step),
                   format_duration(result.total_seconds), speed_up_text(comparison, result)});
  }
  return table;
}

Table memory_table(const Comparison& comparison) {
  Table table({{"experiment"},
               {"forward", Align::kRight},
               {"backward", Align::kRight},
               {"peak", Align::kRight},
               {"predicted", Align::kRight},
               {"change", Align::kRight},
               {"largest batch", Align::kRight}});
  for (const Result& result : comparison.rows) {
    const StepMemory most = result.max_memory();
    std::string largest = "-";
    if (result.largest) {
      largest = std::to_string(result.largest->tried);
      if (result.largest->predicted != result.largest->tried)
        largest += fmt::format(" (predicted {})", result.largest->predicted);
    }
    table.add_row({result.name, bytes_text(most.after_forward), bytes_text(most.after_backward),
                   bytes_text(most.peak), bytes_text(result.predicted.peak),
                   share_text(comparison, result), largest});
  }
  return table;
}

// Under limits, every row trains the same data with the same effective batch.
Table limits_table(const Comparison& comparison) {
  Table table({{"experiment"},
               {"budget", Align::kRight},
               {"peak", Align::kRight},
               {"change", Align::kRight},
               {"WER", Align::kRight},
               {"audio-s/s", Align::kRight},
               {"speed", Align::kRight}});
  for (const Result& result : comparison.rows) {
    if (!result.is_done()) {
      table.add_row({result.name, bytes_text(result.budget_bytes), status_text(result), "-", "-",
                     "-", "-"});
      continue;
    }
    table.add_row({result.name, bytes_text(result.budget_bytes), bytes_text(result.peak_bytes()),
                   share_text(comparison, result), spread_text(comparison, result),
                   speed_text(result.speed), speed_up_text(comparison, result)});
  }
  return table;
}

Table sizes_table(const Comparison& comparison) {
  Table table({{"network, budget"},
               {"parameters", Align::kRight},
               {"predicted", Align::kRight},
               {"measured", Align::kRight},
               {"numerics"},
               {"state"},
               {"predicted/s", Align::kRight},
               {"measured/s", Align::kRight}});
  for (const Result& result : comparison.rows) {
    if (!result.is_done()) {
      table.add_row({result.name, "-", status_text(result), "-", "-", "-", "-", "-"});
      continue;
    }
    table.add_row({result.name, fmt::format("{:.1f} M", static_cast<double>(result.num_parameters) / 1e6),
                   bytes_text(result.predicted.peak),
                   bytes_text(result.memory.empty() ? 0 : result.max_memory().peak),
                   value_of(result, "numerics"), value_of(result, "optimizer.state"),
                   speed_text(result.predicted_speed), speed_text(result.speed)});
  }
  return table;
}

}  // namespace

std::vector<NamedTable> tables_of(const Comparison& comparison) {
  std::vector<NamedTable> tables;
  switch (comparison.kind) {
    case Suite::Kind::kTraining:
      tables.push_back({"Quality and speed", training_table(comparison)});
      tables.push_back({"Memory: the most of all steps, after forward, after backward, at the peak",
                        memory_table(comparison)});
      break;
    case Suite::Kind::kLimits:
      tables.push_back({"Training under limits", limits_table(comparison)});
      break;
    case Suite::Kind::kSizes:
      tables.push_back({"Memory and speed by network and budget", sizes_table(comparison)});
      break;
  }
  if (std::ranges::any_of(comparison.rows, [](const Result& row) { return !row.note.empty(); }))
    tables.push_back({"Notes", notes_table(comparison)});
  return tables;
}

std::string comparison_report(const Comparison& comparison) {
  // Files are not limited by the width of a terminal.
  constexpr int64_t kAnyWidth = 1'000;
  std::string text = set_up_text(comparison);
  for (const NamedTable& named : tables_of(comparison))
    text += fmt::format("\n{}\n\n{}", named.title, named.table.to_string(kAnyWidth));
  if (comparison.kind == Suite::Kind::kSizes) return text;
  text += "\nTechniques\n\n" + summary_of_techniques(comparison) + "\nAnalysis\n\n";
  for (const std::string& sentence : analyse(comparison)) text += "  " + sentence + "\n";
  return text;
}

}  // namespace sotto::lab
