// The optimizer of a fixture: AdamW at a constant rate.
#pragma once

#include <nlohmann/json.hpp>

#include "sotto/optim/optimizer.h"

namespace sotto::test {

inline optim::OptimizerOptions optimizer_of(const nlohmann::json& json) {
  return {.schedule = {.kind = optim::ScheduleKind::kConstant, .rate = json.at("rate")},
          .beta1 = json.at("beta1"),
          .beta2 = json.at("beta2"),
          .epsilon = json.at("epsilon"),
          .weight_decay = json.at("decay"),
          .clip_norm = json.at("clip")};
}

}  // namespace sotto::test
