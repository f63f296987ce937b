#include "sotto/plan/explanation.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "sotto/core/config/config.h"
#include "sotto/core/error.h"
#include "sotto/core/units.h"
#include "sotto/models/model_profile.h"

namespace sotto::plan {

namespace {

using train::kNumerics;

double times(const Way& slower, const Way& faster) {
  return slower.time.total_s() / faster.time.total_s();
}

// Returns the fastest of the others that satisfies a predicate.
template <class IsSo>
const Way* fastest_of(const std::vector<Way>& others, IsSo is_so) {
  const auto found = std::ranges::find_if(others, is_so);
  return found == others.end() ? nullptr : &*found;
}

// States the rule of common guides, and why it does not apply here.
std::string rule_of_numerics(const Way& best, const PlanRequest& request) {
  constexpr int64_t kSmallCard = 8'600'000'000;
  const bool is_small = request.budget.named_for(request.budget.bytes) <= kSmallCard;
  const bool is_bf16 = best.config.arithmetic().compute == train::Compute::kBf16;
  if (!is_small || !is_bf16 || !request.target.is_cuda()) return "";
  return "; a rule of thumb takes fp16 on cards of 8 GB: bf16 takes as little, and needs no "
         "scaling "
         "of the loss";
}

// A reason in a few words, and in full.
struct Why {
  std::string brief;
  std::string full;
};

// A text short enough for both.
Why short_why(const std::string& text) {
  return {.brief = text, .full = text};
}

Why why_numerics(const Plan& plan, const PlanRequest& request) {
  const Way& best = plan.best;
  if (!request.target.is_cuda())
    return {"the most exact with which the run fits",
            "the most exact arithmetic with which the run fits; a CPU computes in fp32 whatever is "
            "kept, so that others would save memory alone"};
  const Way* const other = fastest_of(
      plan.others, [&](const Way& way) { return way.config.numerics != best.config.numerics; });
  if (other == nullptr) return short_why("the only arithmetic with which the run fits");
  const std::string name(name_of(other->config.numerics, kNumerics));
  if (other->time.total_s() < best.time.total_s())
    return {"the most exact that is not much slower",
            fmt::format(
                "the most exact arithmetic that is not much slower: {} would be {:.2f} times as "
                "fast",
                name, times(best, *other))};
  return short_why(fmt::format("{:.2f} times as fast as {}, the next", times(*other, best), name));
}

Why why_state(const Plan& plan, const PlanRequest& request) {
  const Way& best = plan.best;
  if (!request.target.is_cuda())
    return {"a CPU has one memory", "what a CPU calls its host is the same memory"};
  const bool is_on_host = best.config.optimizer.state == optim::StatePlace::kHost;
  const Way* const other = fastest_of(plan.others, [&](const Way& way) {
    return way.config.numerics == best.config.numerics &&
           way.config.optimizer.state != best.config.optimizer.state;
  });
  if (other == nullptr)
    return short_why(is_on_host ? "on the device the run would not fit"
                                : "the host has no room for it");
  return {fmt::format("{:.2f} times as fast as on the {}", times(*other, best),
                      is_on_host ? "device" : "host"),
          fmt::format("{:.2f} times as fast as with it on the {}", times(*other, best),
                      is_on_host ? "device, which leaves less room for activations"
                                 : "host, whose link is slower")};
}

// States the rule of common guides on tiers, and why it does not apply here.
std::string rule_of_tier(const Plan& plan, const PlanRequest& request) {
  constexpr int64_t kLargeModel = 100'000'000;
  const Way* const all_again = fastest_of(plan.others, [&](const Way& way) {
    return way.config.tier == nn::Tier::kBlock &&
           way.config.numerics == plan.best.config.numerics &&
           way.config.optimizer.state == plan.best.config.optimizer.state;
  });
  if (all_again == nullptr) return "";
  const models::ModelProfile profile = models::profile_model(request.config.model, request.shape);
  if (profile.parameters < kLargeModel) return "";
  return fmt::format(
      "; a rule of thumb computes all blocks again above 100 million parameters: here that would "
      "take {:.2f} times as long",
      times(*all_again, plan.best));
}

Why why_tier(const Way& best, const PlanRequest& request) {
  const std::string brief = fmt::format("takes {} of {}", format_bytes(best.fit.worst.high_water),
                                        format_bytes(request.budget.bytes));
  const std::string taken = "the largest micro-batch " + brief;
  if (best.config.tier == nn::Tier::kNone) return {brief, taken + ", with all that backward needs"};
  return {brief, fmt::format("as much is kept for backward as there is room for: {}", taken)};
}

Why why_frames(const Way& best, const PlanRequest& request) {
  if (best.config.max_frames == 0) return short_why("a step fits in one micro-batch");
  if (best.micro_batches == 1)
    return {"steps beyond the median length are split",
            "a step of median length fits in one micro-batch; longer ones are split"};
  const char* const others =
      request.open.tier
          ? "larger ones would leave room for less that is kept, smaller ones would be slower"
          : "of the sizes that fit, that is the fastest";
  return {
      fmt::format("{} micro-batches in a step", best.micro_batches),
      fmt::format("a step of median length has {} micro-batches; {}", best.micro_batches, others)};
}

// Returns the node of a dotted key such as "optimizer.state".
ConfigNode& node_of(ConfigNode& tree, std::string_view key) {
  const size_t dot = key.find('.');
  ConfigNode* const node = tree.find(key.substr(0, dot));
  SOTTO_ASSERT(node != nullptr, "a plan without '{}'", key);
  return dot == std::string_view::npos ? *node : node_of(*node, key.substr(dot + 1));
}

}  // namespace

std::vector<Reason> reasons_of(const Plan& plan, const PlanRequest& request,
                               const HostChoices& host) {
  const train::RunConfig& config = plan.best.config;
  std::vector<Reason> reasons;
  // `rule`: the rule of common guides, appended to the full reason.
  const auto add = [&](const char* key, std::string value, const Why& why,
                       const std::string& rule = {}) {
    reasons.push_back(
        {.key = key, .value = std::move(value), .brief = why.brief, .why = why.full + rule});
  };
  if (request.open.numerics)
    add("numerics", std::string(name_of(config.numerics, kNumerics)), why_numerics(plan, request),
        rule_of_numerics(plan.best, request));
  if (request.open.state)
    add("optimizer.state", std::string(name_of(config.optimizer.state, optim::kStatePlaces)),
        why_state(plan, request));
  if (request.open.tier)
    add("tier", config.tier.to_string(), why_tier(plan.best, request), rule_of_tier(plan, request));
  if (request.open.max_frames)
    add("max_frames", std::to_string(config.max_frames), why_frames(plan.best, request));
  if (config.micro_batch != request.config.micro_batch)
    add("micro_batch", std::to_string(config.micro_batch),
        short_why("more utterances at once fill no device better"));
  if (request.open.loss_rows && config.model.has_loss_rows()) {
    const int64_t rows = config.model.loss_rows();
    add("model.loss_rows", std::to_string(rows),
        rows == 0 ? short_why("there is room for the logits that suit the device")
                  : Why{.brief = "more at once would leave less room",
                        .full = "logits of more tokens at once would leave room for less"});
  }
  reasons.insert(reasons.end(), host.reasons.begin(), host.reasons.end());
  return reasons;
}

ConfigNode write_plan(const Plan& plan, const PlanRequest& request, const HostChoices& host) {
  ConfigNode tree = write_options(plan.best.config);
  for (const Reason& reason : reasons_of(plan, request, host)) {
    if (!reason.is_setting) continue;
    ConfigNode& node = node_of(tree, reason.key);
    node.comment = fmt::format("{}. Decided: {}", node.comment, reason.why);
  }
  return tree;
}

}  // namespace sotto::plan
