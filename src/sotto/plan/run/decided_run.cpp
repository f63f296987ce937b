#include "sotto/plan/run/decided_run.h"

#include <fmt/format.h>

#include <limits>
#include <numeric>
#include <optional>

#include "sotto/core/config/config_yaml.h"
#include "sotto/core/units.h"
#include "sotto/device/host_info.h"
#include "sotto/plan/evaluation_limits.h"
#include "sotto/plan/explanation.h"
#include "sotto/plan/ladder.h"
#include "sotto/plan/outlook.h"
#include "sotto/plan/run/planned_device.h"
#include "sotto/train/step/library_constant.h"

namespace sotto::plan {

std::shared_ptr<data::Source> source_to_plan(const PlanRequest& request, train::RunData& data) {
  return data.make_train([&](const data::Source& all) { return longest_fitting_s(request, all); });
}

HostChoices choose_host_settings(Candidate& candidate, const PlanRequest& request,
                                 const data::Source& source, double length,
                                 const train::RunData* data) {
  HostChoices choices = choose_on_host(candidate, request, source, length, device::read_host());
  const std::unique_ptr<data::Source> dev = data != nullptr ? data->make_dev() : nullptr;
  if (dev) choices.reasons.push_back(print_evaluation(candidate, request, *dev));
  return choices;
}

DecidedRun decide_open(const train::RunConfig& config, const OpenChoices& open,
                       const device::OpenedDevice& opened, train::RunData& data) {
  if (!open.any()) return {.config = config};
  PlanRequest request = planned_device(config, opened).request(config, open, data.shape());
  const std::shared_ptr<data::Source> source = source_to_plan(request, data);
  Plan plan = Planner(request, *source).plan();
  // The memory of libraries was assumed where it had never been measured: if that was too little,
  // less is available.
  const train::StepBudget taken =
      train::take_budget(plan.best.config, data.shape(), opened.device, opened.budget_bytes);
  if (taken.bytes < request.budget.bytes) {
    request.budget = taken;
    plan = Planner(request, *source).plan();
  }
  const std::vector<float> lengths = source->lengths();
  const HostChoices host = choose_host_settings(
      plan.best, request, *source, std::accumulate(lengths.begin(), lengths.end(), 0.0), &data);
  return {.config = plan.best.config,
          .reasons = reasons_of(plan, request, host),
          .plan_yaml = format_yaml(write_plan(plan, request, host)),
          .time = plan.best.time};
}

std::string ladder_text(const train::RunConfig& config, const device::OpenedDevice& opened,
                        bool is_resumed) {
  const std::unique_ptr<train::RunData> data = train::open_run_data(config, std::nullopt, {});
  // Everything is decided, except that the split of a step is found again.
  OpenChoices open = OpenChoices::none();
  open.max_frames = true;
  const PlanRequest request = planned_device(config, opened).request(config, open, data->shape());
  const std::shared_ptr<data::Source> source = source_to_plan(request, *data);
  const PlannedEpoch epoch(config, *source);
  std::string text = "What to try, cheapest first; each in addition to those before it:\n";
  const auto add = [&](const std::string& what, int64_t least_bytes) {
    text +=
        fmt::format("  {}: needs {}\n", what, format_bytes(request.budget.named_for(least_bytes)));
  };
  int64_t least_bytes = std::numeric_limits<int64_t>::max();
  if (const std::optional<device::MemoryReport> least = least_of(request, *source, epoch)) {
    least_bytes = least->high_water;
    add("unchanged", least_bytes);
  }
  for (const Rung& rung : make_ladder(request, *source, epoch, least_bytes))
    if (rung.keeps_result || !is_resumed) add(rung.to_string(), rung.least_bytes);
  return text;
}

}  // namespace sotto::plan
