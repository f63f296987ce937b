// Optional details of `sotto plan`: bytes by component and by moment, and the estimate of the
// literature's formula.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "cli/views/plan_view.h"
#include "sotto/device/arena.h"
#include "sotto/plan/components.h"
#include "sotto/plan/paper_estimate.h"

namespace sotto::cli {

// The estimate of the literature's formula next to the exact figure.
struct PaperView {
  plan::PaperEstimate estimate;
  plan::PaperOptions options;
  int64_t exact_bytes = 0;
};
std::string paper_text(const PaperView& view);
nlohmann::ordered_json paper_json(const PaperView& view);

// One column per arithmetic.
std::string components_text(const std::vector<plan::Components>& all, const plan::PlanFacts& facts);
nlohmann::ordered_json components_json(const std::vector<plan::Components>& all);

// Memory over time in a step of median length.
std::string timeline_text(std::span<const device::MomentPeak> timeline);
nlohmann::ordered_json timeline_json(std::span<const device::MomentPeak> timeline);

}  // namespace sotto::cli
