#include "sotto/report/run_files_json.h"

#include <fmt/format.h>

#include "sotto/core/limits.h"
#include "sotto/core/units.h"

namespace sotto::report {

namespace {

using Json = nlohmann::json;

// An empty object where there is none.
Json group_of(const Json& json, const char* key) {
  return json.value(key, Json::object());
}

std::vector<NamedText> environment_of(const Json& program, const Json& machine) {
  std::vector<NamedText> all;
  const auto add = [&](const char* name, const std::string& text) {
    if (!text.empty()) all.push_back({.name = name, .text = text});
  };
  add("sotto", program.value("version", ""));
  add("commit", program.value("commit", ""));
  add("LibTorch", program.value("torch", ""));
  add("CUDA", program.value("cuda", ""));
  add("system", machine.value("system", ""));
  add("processor", machine.value("processor", ""));
  if (const int64_t processors = machine.value("processors", int64_t{0}); processors > 0)
    add("cores", std::to_string(processors));
  if (const int64_t bytes = machine.value("memory_bytes", int64_t{0}); bytes > 0)
    add("RAM", format_bytes(bytes));
  add("device", machine.value("device", ""));
  add("driver", machine.value("driver", ""));
  return all;
}

void read_data(RunFacts& facts, const Json& data) {
  facts.train_data = data.value("train", "");
  facts.dev_data = data.value("dev", "");
  facts.num_items = data.value("items", int64_t{0});
  facts.data_seconds = data.value("seconds", 0.0);
  facts.num_tokens = data.value("tokens", int64_t{0});
  facts.num_skipped = data.value("skipped", int64_t{0});
  const Json padding = group_of(data, "padding");
  facts.padding_batch = padding.value("batch", int64_t{0});
  facts.shuffled_padding = padding.value("shuffled_share", 0.0);
  facts.sorted_padding = padding.value("sorted_share", 0.0);
}

void read_decisions(RunFacts& facts, const Json& json) {
  for (const Json& entry : json.value("reasons", Json::array()))
    facts.reasons.push_back({.setting = entry.value("setting", ""),
                             .value = entry.value("value", ""),
                             .reason = entry.value("reason", "")});
  const Json time = group_of(json, "step_time");
  facts.step_seconds = time.value("seconds", 0.0);
  for (const Json& part : time.value("parts", Json::array()))
    facts.step_parts.push_back(
        {.name = part.value("name", ""), .seconds = part.value("seconds", 0.0)});
}

StepMoment moment_of(const Json& json, const std::vector<std::string>& categories) {
  StepMoment moment{.phase = json.value("phase", ""),
                    .micro_batch = json.value("micro_batch", int64_t{-1}),
                    .name = json.value("name", ""),
                    .bytes = json.value("bytes", int64_t{0}),
                    .by_category = {}};
  if (!json.contains("by_category")) return moment;
  const Json& by_category = json.at("by_category");
  for (const std::string& category : categories)
    moment.by_category.push_back(by_category.value(category, int64_t{0}));
  return moment;
}

}  // namespace

RunFacts facts_of(const Json& json) {
  const Json machine = group_of(json, "machine");
  const Json model = group_of(json, "model");
  const Json budget = group_of(json, "budget");
  const Json steps = group_of(json, "steps");
  RunFacts facts;
  facts.is_text = json.value("task", "") == "language_modelling";
  facts.environment = environment_of(group_of(json, "program"), machine);
  facts.device = machine.value("device", "");
  facts.model = model.value("preset", "");
  if (facts.model.empty()) facts.model = model.value("family", "");
  facts.num_parameters = model.value("parameters", int64_t{0});
  facts.budget_bytes = budget.value("total_bytes", int64_t{0});
  facts.library_bytes = budget.value("library_bytes", int64_t{0});
  facts.arena_bytes = budget.value("arena_bytes", int64_t{0});
  facts.needed_bytes = group_of(json, "needed").value("high_water_bytes", int64_t{0});
  facts.total_steps = steps.value("total", int64_t{0});
  facts.steps_per_epoch = steps.value("per_epoch", int64_t{0});
  read_data(facts, group_of(json, "data"));
  read_decisions(facts, json);
  return facts;
}

StepMemory step_memory_of(const Json& json) {
  const Json planned = group_of(json, "planned");
  const Json measured = group_of(json, "measured");
  StepMemory memory;
  memory.planned_peak = planned.value("peak_bytes", int64_t{0});
  memory.measured_peak = measured.value("peak_bytes", int64_t{0});
  memory.planned_high_water = planned.value("high_water_bytes", int64_t{0});
  memory.measured_high_water = measured.value("high_water_bytes", int64_t{0});
  memory.planned_host_peak = planned.value("host_peak_bytes", int64_t{0});
  memory.measured_host_peak = measured.value("host_peak_bytes", int64_t{0});
  memory.peak_moment = planned.value("peak_moment", "");
  const Json at_peak = group_of(measured, "bytes_at_peak");
  // In the order in which categories are stacked: what a run keeps throughout comes first.
  const Json expected = group_of(planned, "bytes_at_peak");
  for (const char* category :
       {"weights", "gradients", "optimizer", "activations", "workspace", "data"}) {
    if (!expected.contains(category)) continue;
    memory.categories.emplace_back(category);
    memory.at_peak.push_back({.category = category,
                              .planned = expected.value(category, int64_t{0}),
                              .measured = at_peak.value(category, int64_t{0})});
  }
  memory.step = json.value("step", int64_t{1});
  for (const Json& moment : json.value("timeline", Json::array()))
    memory.timeline.push_back(moment_of(moment, memory.categories));
  return memory;
}

std::string learned_limits_of(const Json& json) {
  return describe(limits_from_json(json.at("limits")));
}

}  // namespace sotto::report
