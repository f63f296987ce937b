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

// For a GPU: the arenas of plans for usual cards, whose speed the page shows beside other budgets.
std::vector<int64_t> arenas_of_cards(const plan::MadePlan& made);

struct PlanPageContent {
  // Other budgets, in any order.
  std::vector<plan::Outlook> outlooks;
  std::vector<plan::Components> components;
  std::vector<device::MomentPeak> timeline;
};

report::Page plan_page(const plan::MadePlan& made, PlanPageContent content);

}  // namespace sotto::cli
