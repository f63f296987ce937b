#include "cli/views/plan_details.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "sotto/core/units.h"
#include "sotto/report/chart.h"
#include "sotto/report/table.h"

namespace sotto::cli {

namespace {

using device::Moment;
using device::MomentPeak;
using report::Align;
using report::Table;

std::string percent_text(double share) {
  return fmt::format("{:+.0f} %", 100.0 * share);
}

constexpr std::array kComponentNames = {
    std::pair{"weights", &plan::Components::weights},
    std::pair{"remainder of weights", &plan::Components::remainder},
    std::pair{"gradients", &plan::Components::gradients},
    std::pair{"momentum", &plan::Components::momentum},
    std::pair{"variance", &plan::Components::variance},
    std::pair{"activations", &plan::Components::activations},
    std::pair{"other", &plan::Components::other}};

std::string name_of_phase(const Moment& moment) {
  return Moment{.phase = moment.phase}.to_string();
}

// Returns the number of a micro-batch; the phase where there is only one micro-batch.
std::string stretch_of(const Moment& moment, bool is_single) {
  if (is_single || moment.micro_batch < 0) return name_of_phase(moment);
  return std::to_string(moment.micro_batch + 1);
}

}  // namespace

std::string paper_text(const PaperView& view) {
  const plan::PaperEstimate& estimate = view.estimate;
  Table table({{"estimated by alpha x T x d x layers"}, {"", Align::kRight}});
  table.add_row({"weights, gradients, moments", format_bytes(estimate.state_bytes)});
  table.add_row({fmt::format("activations: alpha {}, T {} frames (percentile {}), {} utterances",
                             view.options.alpha, estimate.frames, view.options.percentile,
                             estimate.utterances),
                 format_bytes(estimate.activation_bytes)});
  table.add_rule();
  table.add_row({"by the formula", format_bytes(estimate.total())});
  table.add_row({"the run takes", format_bytes(view.exact_bytes)});
  table.add_row({"error of the formula", percent_text(estimate.miss(view.exact_bytes))});
  return table.to_string();
}

nlohmann::ordered_json paper_json(const PaperView& view) {
  return {{"alpha_constant", view.options.alpha},
          {"sequence_length_percentile", view.options.percentile},
          {"frames", view.estimate.frames},
          {"utterances", view.estimate.utterances},
          {"state_bytes", view.estimate.state_bytes},
          {"activation_bytes", view.estimate.activation_bytes},
          {"estimated_bytes", view.estimate.total()},
          {"exact_bytes", view.exact_bytes},
          {"misses_by", view.estimate.miss(view.exact_bytes)}};
}

std::string components_text(const std::vector<plan::Components>& all,
                            const plan::PlanFacts& facts) {
  std::vector<report::Column> columns = {{"state on the device"}};
  std::vector<std::string> totals = {"total"}, speeds = {"speed"};
  for (const plan::Components& components : all) {
    columns.push_back({std::string(name_of(components.numerics, train::kNumerics)), Align::kRight});
    totals.push_back(format_bytes(components.total() + facts.constant_bytes));
    speeds.push_back(components.speed ? fmt::format("{} {}", format_digits(*components.speed),
                                                    facts.task->speed_unit)
                                      : "not measured");
  }
  Table table(columns);
  for (const auto& [name, member] : kComponentNames) {
    std::vector<std::string> row = {name};
    for (const plan::Components& components : all) row.push_back(format_bytes(components.*member));
    table.add_row(row);
  }
  if (facts.constant_bytes > 0) {
    std::vector<std::string> row = {"driver and libraries"};
    row.resize(all.size() + 1, format_bytes(facts.constant_bytes));
    table.add_row(row);
  }
  table.add_rule();
  table.add_row(totals);
  table.add_row(speeds);
  return table.to_string();
}

nlohmann::ordered_json components_json(const std::vector<plan::Components>& all) {
  nlohmann::ordered_json json;
  for (const plan::Components& components : all) {
    nlohmann::ordered_json& entry =
        json[std::string(name_of(components.numerics, train::kNumerics))];
    for (const auto& [name, member] : kComponentNames) entry[name] = components.*member;
    entry["speed"] = components.speed ? nlohmann::ordered_json(*components.speed) : nullptr;
  }
  return json;
}

std::string timeline_text(std::span<const MomentPeak> timeline) {
  int64_t last_micro_batch = 0, most = 0;
  for (const MomentPeak& peak : timeline) {
    last_micro_batch = std::max(last_micro_batch, peak.moment.micro_batch);
    most = std::max(most, peak.bytes);
  }
  report::Chart chart{.values = {}, .stretches = {}, .top = format_bytes(most)};
  for (const MomentPeak& peak : timeline) {
    chart.values.push_back(static_cast<double>(peak.bytes));
    const std::string name = stretch_of(peak.moment, last_micro_batch == 0);
    if (chart.stretches.empty() || chart.stretches.back().name != name)
      chart.stretches.push_back({.name = name});
    ++chart.stretches.back().num_values;
  }
  const std::string of = last_micro_batch == 0
                             ? "in one micro-batch"
                             : fmt::format("micro-batches 1 to {}", last_micro_batch + 1);
  return fmt::format("memory over a step of median length, {}\n{}", of, chart.to_string());
}

nlohmann::ordered_json timeline_json(std::span<const MomentPeak> timeline) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const MomentPeak& peak : timeline) {
    nlohmann::ordered_json entry = {{"phase", name_of_phase(peak.moment)}, {"bytes", peak.bytes}};
    if (peak.moment.micro_batch >= 0) entry["micro_batch"] = peak.moment.micro_batch;
    if (peak.moment.layer >= 0) entry["layer"] = peak.moment.layer;
    json.push_back(std::move(entry));
  }
  return json;
}

}  // namespace sotto::cli
