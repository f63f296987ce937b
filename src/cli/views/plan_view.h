// A plan on the terminal, and as JSON.
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

// What other budgets would do.
std::string outlook_text(const std::vector<plan::Outlook>& outlooks, const plan::Way& best,
                         const plan::PlanFacts& facts);

nlohmann::ordered_json outlook_json(const std::vector<plan::Outlook>& outlooks,
                                    const plan::PlanFacts& facts);

// One of several plans side by side.
struct ComparedPlan {
  std::string name;
  std::optional<plan::Plan> plan;
  plan::PlanFacts facts;
  // Why there is none.
  std::string refused;
};
// `what`: the title of the first column.
std::string comparison_text(std::string_view what, const std::vector<ComparedPlan>& plans);
nlohmann::ordered_json comparison_json(const std::vector<ComparedPlan>& plans);

// A run's configuration, with reasons: YAML, or JSON without them where the file's name ends so.
void write_plan_file(const std::filesystem::path& path, const plan::Plan& plan,
                     const plan::PlanRequest& request, const plan::HostChoices& host);

}  // namespace sotto::cli
