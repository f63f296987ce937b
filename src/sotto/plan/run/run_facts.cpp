#include "sotto/plan/run/run_facts.h"

#include <utility>

#include "sotto/core/build_info.h"
#include "sotto/device/gpu_info.h"
#include "sotto/device/host_info.h"

namespace sotto::plan {

namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kFormatVersionOfFacts = 1;

Json machine_json(const device::RunDevice& device) {
  const device::HostInfo host = device::read_host();
  Json json = {{"system", host.operating_system},
               {"processor", host.cpu_model},
               {"processors", host.num_cores},
               {"memory_bytes", host.total_bytes},
               {"device", device.name}};
  if (device.target.is_cuda()) json["driver"] = device::read_gpus().driver_version;
  return json;
}

Json data_json(const train::RunPlan& plan, const train::RunConfig& config) {
  Json json = {{"train", config.data.train.string()}, {"dev", config.data.dev.string()},
               {"items", plan.num_utterances},        {"seconds", plan.audio_seconds},
               {"tokens", plan.num_tokens},           {"skipped", plan.num_skipped}};
  if (plan.padding.batch > 0)
    json["padding"] = {{"batch", plan.padding.batch},
                       {"shuffled_share", plan.padding.shuffled_share},
                       {"sorted_share", plan.padding.sorted_share}};
  return json;
}

Json reasons_json(const std::vector<Reason>& reasons) {
  Json json = Json::array();
  for (const Reason& reason : reasons)
    json.push_back({{"setting", reason.key}, {"value", reason.value}, {"reason", reason.why}});
  return json;
}

Json time_json(const StepTime& time) {
  Json parts = Json::array();
  for (const TimePart& part : parts_of(time))
    parts.push_back({{"name", part.name}, {"seconds", part.seconds}});
  return {{"seconds", time.total_s()}, {"parts", std::move(parts)}};
}

}  // namespace

Json facts_json(const train::RunPlan& plan, const train::RunConfig& config,
                const device::RunDevice& device, const DecisionFacts& decisions) {
  const BuildInfo build = build_info();
  const device::MemoryReport& worst = plan.fit.worst;
  Json json = {{"format_version", kFormatVersionOfFacts},
               {"program",
                {{"version", build.version},
                 {"commit", build.commit},
                 {"torch", build.torch},
                 {"cuda", build.cuda}}},
               {"machine", machine_json(device)},
               {"task", config.model.task().is_text() ? "language_modelling" : "transcription"},
               {"model",
                {{"family", config.model.family().name},
                 {"preset", config.model.preset()},
                 {"parameters", plan.num_parameters}}},
               {"data", data_json(plan, config)},
               {"budget",
                {{"total_bytes", plan.budget_bytes},
                 {"library_bytes", plan.constant_bytes},
                 {"arena_bytes", plan.budget_bytes - plan.constant_bytes}}},
               {"needed",
                {{"peak_bytes", worst.peak},
                 {"high_water_bytes", worst.high_water},
                 {"moment", worst.peak_moment.to_string()}}},
               {"steps",
                {{"per_epoch", plan.steps_per_epoch},
                 {"total", plan.total_steps},
                 {"first", plan.first_step}}}};
  for (const train::Stage& stage : plan.stages)
    json["steps"]["stages"].push_back({{"name", stage.name},
                                       {"samples", stage.num_samples},
                                       {"per_epoch", stage.steps_per_epoch},
                                       {"total", stage.num_steps}});
  if (!decisions.reasons.empty()) json["reasons"] = reasons_json(decisions.reasons);
  if (decisions.time.total_s() > 0.0) json["step_time"] = time_json(decisions.time);
  return json;
}

}  // namespace sotto::plan
