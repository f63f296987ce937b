// Text and JSON of a plan.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/plan/explanation.h"
#include "sotto/plan/outlook.h"
#include "sotto/plan/run/made_plan.h"

namespace sotto::cli {

std::string plan_text(const plan::Plan& plan, const plan::PlanRequest& request,
                      const plan::PlanFacts& facts);
nlohmann::ordered_json plan_json(const plan::Plan& plan, const plan::PlanRequest& request,
                                 const plan::PlanFacts& facts);

// The effect of other budgets.
std::string outlook_text(const std::vector<plan::Outlook>& outlooks, const plan::Candidate& best,
                         const plan::PlanFacts& facts);

nlohmann::ordered_json outlook_json(const std::vector<plan::Outlook>& outlooks,
                                    const plan::PlanFacts& facts);

// One of several plans side by side.
struct ComparedPlan {
  std::string name;
  std::optional<plan::Plan> plan;
  plan::PlanFacts facts;
  // Reason where there is no plan.
  std::string refused;
};
// `what`: the title of the first column.
std::string comparison_text(std::string_view what, const std::vector<ComparedPlan>& plans);
nlohmann::ordered_json comparison_json(const std::vector<ComparedPlan>& plans);

// Writes a run's configuration with reasons: YAML, or JSON without reasons where the file name ends
// in .json.
void write_plan_file(const std::filesystem::path& path, const plan::Plan& plan,
                     const plan::PlanRequest& request, const plan::HostChoices& host);

}  // namespace sotto::cli
