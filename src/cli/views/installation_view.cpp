#include "cli/views/installation_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "sotto/core/config/options.h"
#include "sotto/report/table.h"

namespace sotto::cli {

namespace {

using Verdict = device::Check::Verdict;

constexpr std::array kVerdicts = {Named{"ok", Verdict::kOk}, Named{"warning", Verdict::kWarning},
                                  Named{"problem", Verdict::kProblem}};

int64_t count_of(const std::vector<device::Check>& checks, Verdict verdict) {
  return std::ranges::count(checks, verdict, &device::Check::verdict);
}

std::string summary(const std::vector<device::Check>& checks) {
  const int64_t warnings = count_of(checks, Verdict::kWarning);
  const int64_t problems = count_of(checks, Verdict::kProblem);
  const std::string noted = fmt::format("{} {}", warnings, warnings == 1 ? "warning" : "warnings");
  if (problems == 0)
    return fmt::format("Ready to train, {}\n", warnings == 0 ? "no warnings" : noted);
  return fmt::format("{} {}, {}\n", problems, problems == 1 ? "problem" : "problems", noted);
}

}  // namespace

std::string installation_text(const std::vector<device::Check>& checks) {
  report::Table table({{"verdict"}, {"check"}, {"found"}});
  std::string advice;
  for (const device::Check& check : checks) {
    table.add_row({std::string(name_of(check.verdict, kVerdicts)), check.subject, check.found});
    if (!check.advice.empty()) advice += fmt::format("  {}: {}\n", check.subject, check.advice);
  }
  // Not limited to the terminal's width: what was found may be a path, or the reason of a failure.
  std::string text = table.to_string(std::numeric_limits<int64_t>::max()) + "\n";
  if (!advice.empty()) text += "What to do:\n" + advice + "\n";
  return text + summary(checks);
}

nlohmann::ordered_json installation_json(const std::vector<device::Check>& checks) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const device::Check& check : checks)
    list.push_back({{"check", check.subject},
                    {"found", check.found},
                    {"verdict", name_of(check.verdict, kVerdicts)},
                    {"advice", check.advice}});
  return {{"format_version", 1},
          {"usable", count_of(checks, Verdict::kProblem) == 0},
          {"checks", std::move(list)}};
}

}  // namespace sotto::cli
