#include "sotto/lab/comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/nearest.h"
#include "sotto/lab/analysis.h"

namespace sotto::lab {

namespace {

constexpr std::string_view kSeedMark = "_seed";

// Returns the experiment that a repetition repeats; empty for others.
std::string repeated_by(const Result& result) {
  const size_t mark = result.name.rfind(kSeedMark);
  if (mark == std::string::npos) return {};
  const std::string experiment = result.name.substr(0, mark);
  return repetition_name(experiment, result.seed) == result.name ? experiment : std::string();
}

double relative_difference(double a, double b) {
  const double mean = 0.5 * (a + b);
  return mean > 0.0 ? std::abs(a - b) / mean : 0.0;
}

double ratio(double part, double whole) {
  return part > 0.0 && whole > 0.0 ? part / whole : 0.0;
}

// Returns the completed repetitions of an experiment.
std::vector<const Result*> repetitions_of(const Result& first,
                                          const std::vector<Result>& repetitions) {
  std::vector<const Result*> found;
  for (const Result& other : repetitions)
    if (repeated_by(other) == first.name && other.is_done()) found.push_back(&other);
  return found;
}

// Returns how far apart values are, relative to their mean; 0 for fewer than two.
double relative_range(const std::vector<double>& values) {
  if (values.size() < 2) return 0.0;
  double sum = 0.0;
  for (const double value : values) sum += value;
  const double mean = sum / static_cast<double>(values.size());
  return mean > 0.0 ? (std::ranges::max(values) - std::ranges::min(values)) / mean : 0.0;
}

// Adds how far apart the experiment and its repetitions are.
void add_noise(const Result& first, const std::vector<const Result*>& repetitions,
               std::optional<Noise>& noise) {
  if (!first.is_done() || repetitions.empty()) return;
  std::vector<double> seconds, qualities;
  const auto add = [&](const Result& result) {
    if (result.seconds_per_step > 0.0) seconds.push_back(result.seconds_per_step);
    if (result.quality()) qualities.push_back(*result.quality());
  };
  add(first);
  for (const Result* other : repetitions) add(*other);
  const double in_seconds = relative_range(seconds), in_quality = relative_range(qualities);
  if (!noise || in_seconds + in_quality > noise->seconds + noise->quality) {
    const Noise before = noise.value_or(Noise{});
    noise = Noise{.experiment = first.name,
                  .num_seeds = std::ssize(repetitions) + 1,
                  .quality = std::max(in_quality, before.quality),
                  .seconds = std::max(in_seconds, before.seconds)};
  } else {
    noise->quality = std::max(in_quality, noise->quality);
    noise->seconds = std::max(in_seconds, noise->seconds);
  }
}

std::optional<Spread> spread_of(const Result& first,
                                const std::vector<const Result*>& repetitions) {
  if (!first.quality()) return std::nullopt;
  std::vector<double> values = {*first.quality()};
  for (const Result* other : repetitions)
    if (other->quality()) values.push_back(*other->quality());
  double sum = 0.0;
  for (const double value : values) sum += value;
  return Spread{.num_seeds = std::ssize(values),
                .mean = sum / static_cast<double>(values.size()),
                .least = std::ranges::min(values),
                .most = std::ranges::max(values)};
}

// Returns the rows with these names, in this order.
std::vector<Result> choose_rows(const std::vector<Result>& rows,
                                const std::vector<std::string>& names) {
  std::vector<Result> chosen;
  std::vector<std::string> known;
  for (const Result& row : rows) known.push_back(row.name);
  for (const std::string& name : names) {
    const auto found = std::ranges::find(rows, name, &Result::name);
    if (found != rows.end()) {
      chosen.push_back(*found);
      continue;
    }
    const std::optional<std::string> close = nearest(name, known);
    throw ConfigError({.attempted = "comparing experiments",
                       .found = fmt::format("no result of '{}'", name),
                       .expected = fmt::format("some of {}", fmt::join(known, ", ")),
                       .hint = close ? fmt::format("Did you mean {}?", *close) : ""});
  }
  return chosen;
}

}  // namespace

std::string repetition_name(const std::string& experiment, int64_t seed) {
  return fmt::format("{}{}{}", experiment, kSeedMark, seed);
}

const Result* Comparison::baseline() const {
  const auto found = std::ranges::find_if(rows, &Result::is_done);
  return found == rows.end() ? nullptr : &*found;
}

// Steps per second where all steps are of one batch, else the speed through the data.
double Comparison::pace(const Result& result) const {
  const auto has_same_batch = [&](const Result& row) {
    return row.batch == rows.front().batch && row.row_tokens == rows.front().row_tokens;
  };
  if (kind != Suite::Kind::kTraining || !std::ranges::all_of(rows, has_same_batch))
    return result.speed;
  return result.seconds_per_step > 0.0 ? 1.0 / result.seconds_per_step : 0.0;
}

double Comparison::speed_up(const Result& result) const {
  const Result* const first = baseline();
  // Speeds of different devices say nothing about the experiments.
  if (first == nullptr || !result.is_done() || result.device != first->device) return 0.0;
  return ratio(pace(result), pace(*first));
}

double Comparison::memory_share(const Result& result) const {
  const Result* const first = baseline();
  if (first == nullptr || !result.is_done()) return 0.0;
  return ratio(static_cast<double>(result.peak_bytes()), static_cast<double>(first->peak_bytes()));
}

bool Comparison::differs_in_time(const Result& a, const Result& b) const {
  if (!noise || pace(a) <= 0.0 || pace(b) <= 0.0) return false;
  // Two standard errors, relative; few or unsteady steps tell little.
  const double error = 2.0 * std::hypot(a.seconds_error / std::max(a.seconds_per_step, 1e-12),
                                        b.seconds_error / std::max(b.seconds_per_step, 1e-12));
  return relative_difference(pace(a), pace(b)) > std::max(noise->seconds, error);
}

bool Comparison::differs_in_quality(const Result& a, const Result& b) const {
  const std::optional<double> of_a = quality_of(a), of_b = quality_of(b);
  return noise && of_a && of_b && relative_difference(*of_a, *of_b) > noise->quality;
}

// Only under limits has every row as many seeds as the others.
std::optional<double> Comparison::quality_of(const Result& result) const {
  if (kind != Suite::Kind::kLimits) return result.quality();
  const auto found = quality.find(result.name);
  return found == quality.end() ? result.quality() : found->second.mean;
}

std::string quality_text(const Result& result, double quality) {
  return result.is_text() ? fmt::format("{:.4g}", quality)
                          : fmt::format("{:.2f} %", 100.0 * quality);
}

Comparison compare_results(std::vector<Result> results, const std::vector<std::string>& names) {
  Comparison comparison;
  std::vector<Result> repetitions;
  for (Result& result : results)
    (repeated_by(result).empty() ? comparison.rows : repetitions).push_back(std::move(result));
  if (!names.empty()) comparison.rows = choose_rows(comparison.rows, names);
  if (comparison.rows.empty())
    throw DataError({.attempted = "comparing experiments", .found = "no results"});
  comparison.suite = comparison.rows.front().suite;
  comparison.kind = comparison.rows.front().kind;
  comparison.dataset = comparison.rows.front().dataset;
  for (const Result& row : comparison.rows) {
    const std::vector<const Result*> repeated = repetitions_of(row, repetitions);
    add_noise(row, repeated, comparison.noise);
    if (const std::optional<Spread> spread = spread_of(row, repeated))
      comparison.quality[row.name] = *spread;
  }
  return comparison;
}

nlohmann::ordered_json comparison_json(const Comparison& comparison) {
  nlohmann::ordered_json json = {{"format_version", 1},
                                 {"suite", comparison.suite},
                                 {"kind", name_of_kind(comparison.kind)},
                                 {"dataset", comparison.dataset}};
  if (const Result* const first = comparison.baseline()) json["baseline"] = first->name;
  if (comparison.noise)
    json["noise"] = {{"experiment", comparison.noise->experiment},
                     {"seeds", comparison.noise->num_seeds},
                     {"quality", comparison.noise->quality},
                     {"seconds_per_step", comparison.noise->seconds}};
  json["experiments"] = nlohmann::ordered_json::array();
  for (const Result& result : comparison.rows) {
    nlohmann::ordered_json row = metrics_json(result);
    row["speed_up"] = comparison.speed_up(result);
    row["memory_share"] = comparison.memory_share(result);
    if (const auto found = comparison.quality.find(result.name); found != comparison.quality.end())
      row["quality"] = {{"seeds", found->second.num_seeds},
                        {"mean", found->second.mean},
                        {"least", found->second.least},
                        {"most", found->second.most}};
    json["experiments"].push_back(std::move(row));
  }
  json["analysis"] = analyse(comparison);
  return json;
}

}  // namespace sotto::lab
