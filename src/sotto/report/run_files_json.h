// The JSON files of a run as structs. Missing keys leave defaults; values of another type throw.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "sotto/report/run_content.h"

namespace sotto::report {

// facts.json
RunFacts facts_of(const nlohmann::json& json);
// memory.json
StepMemory step_memory_of(const nlohmann::json& json);
// limits.json; empty where there is no limit
std::string learned_limits_of(const nlohmann::json& json);

}  // namespace sotto::report
