#include "cli/views/lab_view.h"

#include <fmt/format.h>

#include <sstream>

#include "cli/views/console.h"
#include "sotto/core/units.h"
#include "sotto/lab/analysis.h"
#include "sotto/lab/comparison_tables.h"

namespace sotto::cli {

namespace {

std::string quality_text(const lab::Result& result) {
  if (!result.quality()) return "";
  if (result.is_text())
    return fmt::format(", validation perplexity {}", format_digits(*result.quality()));
  return fmt::format(", WER {:.1f} %", 100.0 * *result.quality());
}

// Breaks a text into lines of at most 80 characters.
std::string wrapped(const std::string& text) {
  constexpr size_t kWidth = 80;
  std::string lines, word;
  size_t width = 0;
  for (std::istringstream words(text); words >> word; width += word.size()) {
    const bool is_first = width == 0;
    const bool is_full = !is_first && width + 1 + word.size() > kWidth;
    lines += is_first ? "" : is_full ? "\n" : " ";
    width = is_full || is_first ? 0 : width + 1;
    lines += word;
  }
  return lines + "\n";
}

}  // namespace

std::string describe(const lab::Result& result) {
  if (!result.is_done())
    return fmt::format(
        "{} {}: {}", result.name,
        result.status == lab::Result::Status::kDoesNotFit ? "does not fit" : "failed", result.note);
  std::string text = result.name + ": ";
  if (result.num_steps > 0)
    text += fmt::format("{} steps, {} per step, ", result.num_steps,
                        format_duration(result.seconds_per_step));
  text += fmt::format("{} {}", result.memory.empty() ? "predicted peak" : "peak",
                      format_bytes(result.peak_bytes()));
  if (result.largest) text += fmt::format(", largest batch {}", result.largest->tried);
  text += quality_text(result);
  return result.note.empty() ? text : fmt::format("{} ({})", text, result.note);
}

void LabView::line(const std::string& text) {
  bar_.clear();
  print_error(text + "\n");
}

lab::SuiteEvents LabView::events() {
  lab::SuiteEvents events;
  events.began = [this](const lab::Experiment& experiment, int64_t index, int64_t total) {
    line(fmt::format("[{}/{}] {}{}{}", index + 1, total, experiment.name,
                     experiment.title.empty() ? "" : ": ", experiment.title));
  };
  events.ended = [this](const lab::Result& result, bool is_from_before) {
    line("  " + describe(result) + (is_from_before ? " (from before)" : ""));
  };
  events.experiment.doing = [this](const std::string& what) { bar_.show(0, 1, what); };
  events.experiment.run.stepped = [this](const train::StepReport& report) {
    bar_.show(report.step, report.total_steps, fmt::format("loss {:.4f}", report.result.loss));
  };
  events.experiment.run.warned = [this](const std::string& text) { line("  warning: " + text); };
  return events;
}

std::string comparison_text(const lab::Comparison& comparison) {
  const bool is_of_sizes = comparison.kind == lab::Suite::Kind::kSizes;
  std::string text;
  for (const report::DataTable& table : lab::tables_of(comparison)) {
    text += fmt::format("{}{}", text.empty() ? "" : "\n", report::terminal_text(table));
    if (is_of_sizes && !table.note.empty()) text += "\n" + wrapped(table.note);
  }
  if (const std::string devices = lab::devices_of(comparison); !devices.empty())
    text += fmt::format("\nDevice: {}\n", devices);
  text += '\n';
  if (is_of_sizes) return text;
  for (const std::string& sentence : lab::analyse(comparison)) text += sentence + "\n";
  return text;
}

}  // namespace sotto::cli
