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

namespace sotto::cli {

// What a plan is for, besides its request.
struct PlanFacts {
  std::string device_name;
  // Whether the card is not the one at hand: its rates are published ones.
  bool is_elsewhere = false;
  int64_t budget_bytes = 0;
  int64_t constant_bytes = 0;
  std::string data_name;
  // Of the whole run: seconds, or tokens; and in words: "10 epochs".
  double run_length = 0.0;
  std::string run_name;
  bool is_text = false;
  // Of an hour on the device; 0: unknown.
  double price = 0.0;
  plan::HostChoices host = {};
};

std::string plan_text(const plan::Plan& plan, const plan::PlanRequest& request,
                      const PlanFacts& facts);
nlohmann::ordered_json plan_json(const plan::Plan& plan, const plan::PlanRequest& request,
                                 const PlanFacts& facts);

// What other budgets would do.
std::string outlook_text(const std::vector<plan::Outlook>& outlooks, const plan::Way& best,
                         const PlanFacts& facts);

nlohmann::ordered_json outlook_json(const std::vector<plan::Outlook>& outlooks,
                                    const PlanFacts& facts);

// One of several plans side by side.
struct ComparedPlan {
  std::string name;
  std::optional<plan::Plan> plan;
  PlanFacts facts;
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
