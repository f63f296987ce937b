// The page of a plan: speed against memory over budgets, bytes by component, a step over time, and
// the reasons.
#pragma once

#include <span>
#include <vector>

#include "sotto/device/arena.h"
#include "sotto/plan/components.h"
#include "sotto/plan/outlook.h"
#include "sotto/plan/run/made_plan.h"
#include "sotto/report/page.h"

namespace sotto::cli {

// Arenas for whose budgets the page shows the speed: around the plan's and, for a GPU, those of
// usual cards.
std::vector<int64_t> arenas_for_page(const plan::MadePlan& made);

struct PlanPageContent {
  // From arenas_for_page(), in order.
  std::vector<plan::Outlook> outlooks;
  std::vector<plan::Components> components;
  std::vector<device::MomentPeak> timeline;
};

report::Page plan_page(const plan::MadePlan& made, const PlanPageContent& content);

}  // namespace sotto::cli
