#include "sotto/plan/explanation.h"

#include <algorithm>
#include <optional>

#include "sotto/core/config.h"
#include "sotto/core/error.h"
#include "sotto/core/units.h"

namespace sotto::plan {

namespace {

using train::kNumerics;

double times(const Way& slower, const Way& faster) {
  return slower.time.total_s() / faster.time.total_s();
}

// The fastest of the others that is so.
template <class IsSo>
const Way* fastest_of(const std::vector<Way>& others, IsSo is_so) {
  const auto found = std::ranges::find_if(others, is_so);
  return found == others.end() ? nullptr : &*found;
}

std::string why_numerics(const Plan& plan) {
  const Way& best = plan.best;
  const Way* const other = fastest_of(
      plan.others, [&](const Way& way) { return way.config.numerics != best.config.numerics; });
  if (other == nullptr) return "the only arithmetic with which the run fits";
  const std::string name(name_of(other->config.numerics, kNumerics));
  if (other->time.total_s() < best.time.total_s())
    return fmt::format(
        "the most exact arithmetic that is not much slower: {} would be {:.2f} times "
        "as fast",
        name, times(best, *other));
  return fmt::format("{:.2f} times as fast as {}, the next", times(*other, best), name);
}

std::string why_state(const Plan& plan) {
  const Way& best = plan.best;
  const bool is_on_host = best.config.optimizer.state == optim::StatePlace::kHost;
  const Way* const other = fastest_of(
      plan.others, [&](const Way& way) { return way.config.numerics == best.config.numerics; });
  if (other == nullptr)
    return is_on_host ? "on the device the run would not fit"
                      : "the host has no room for it, or is the same memory";
  return fmt::format(
      "{:.2f} times as fast as with it on the {}", times(*other, best),
      is_on_host ? "device, which leaves less room for activations" : "host, whose link is slower");
}

std::string why_tier(const Way& best, const PlanRequest& request) {
  const std::string taken =
      fmt::format("the largest micro-batch takes {} of {}", format_bytes(best.fit.worst.high_water),
                  format_bytes(request.budget.bytes));
  if (best.config.tier == nn::Tier::kNone) return taken + ", with all that backward needs";
  return fmt::format("as much is kept for backward as there is room for: {}", taken);
}

std::string why_frames(const Way& best) {
  if (best.config.max_frames == 0) return "a step fits in one micro-batch";
  return fmt::format(
      "a step goes in {} micro-batches; larger ones would leave room for less that is "
      "kept, smaller ones would be slower",
      best.micro_batches);
}

// The node of "optimizer.state".
ConfigNode& node_of(ConfigNode& tree, std::string_view key) {
  const size_t dot = key.find('.');
  ConfigNode* const node = tree.find(key.substr(0, dot));
  SOTTO_ASSERT(node != nullptr, "a plan without '{}'", key);
  return dot == std::string_view::npos ? *node : node_of(*node, key.substr(dot + 1));
}

}  // namespace

std::vector<Reason> reasons_of(const Plan& plan, const PlanRequest& request) {
  const train::RunConfig& config = plan.best.config;
  std::vector<Reason> reasons;
  if (request.open.numerics)
    reasons.push_back(
        {"numerics", std::string(name_of(config.numerics, kNumerics)), why_numerics(plan)});
  if (request.open.state)
    reasons.push_back({"optimizer.state",
                       std::string(name_of(config.optimizer.state, optim::kStatePlaces)),
                       why_state(plan)});
  if (request.open.tier)
    reasons.push_back({"tier", config.tier.to_string(), why_tier(plan.best, request)});
  if (request.open.max_frames)
    reasons.push_back({"max_frames", std::to_string(config.max_frames), why_frames(plan.best)});
  return reasons;
}

ConfigNode write_plan(const Plan& plan, const PlanRequest& request) {
  ConfigNode tree = write_options(plan.best.config);
  for (const Reason& reason : reasons_of(plan, request)) {
    ConfigNode& node = node_of(tree, reason.key);
    node.comment = fmt::format("{}. Decided: {}", node.comment, reason.why);
  }
  return tree;
}

}  // namespace sotto::plan
