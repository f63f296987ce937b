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

constexpr const char* kSplitMatters = "the split into micro-batches changes the result";

double times(const Candidate& slower, const Candidate& faster) {
  return slower.time.total_s() / faster.time.total_s();
}

// Returns the fastest of the others that satisfies a predicate.
template <class IsSo>
const Candidate* fastest_of(const std::vector<Candidate>& others, IsSo is_so) {
  const auto found = std::ranges::find_if(others, is_so);
  return found == others.end() ? nullptr : &*found;
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
  const Candidate& best = plan.best;
  if (!request.target.is_cuda())
    return {"the most exact that fits",
            "the most exact numerics that fit; on a CPU others would save memory but no time"};
  const Candidate* const other = fastest_of(plan.others, [&](const Candidate& candidate) {
    return candidate.config.numerics != best.config.numerics;
  });
  if (other == nullptr) return short_why("the only numerics that fit");
  const std::string name(name_of(other->config.numerics, kNumerics));
  if (other->time.total_s() < best.time.total_s())
    return {"the most exact that is not much slower",
            fmt::format("the most exact numerics that are not much slower: {} is {:.2f}x as fast",
                        name, times(best, *other))};
  return short_why(fmt::format("{:.2f}x as fast as {}, the next best", times(*other, best), name));
}

Why why_state(const Plan& plan, const PlanRequest& request) {
  const Candidate& best = plan.best;
  if (!request.target.is_cuda()) return short_why("not applicable on a CPU");
  const bool is_on_host = best.config.optimizer.state == optim::StateLocation::kHost;
  const Candidate* const other = fastest_of(plan.others, [&](const Candidate& candidate) {
    return candidate.config.numerics == best.config.numerics &&
           candidate.config.optimizer.state != best.config.optimizer.state;
  });
  if (other == nullptr)
    return short_why(is_on_host ? "the run would not fit with it on the device"
                                : "the host memory is too small for it");
  return {fmt::format("{:.2f}x as fast as on the {}", times(*other, best),
                      is_on_host ? "device" : "host"),
          fmt::format("{:.2f}x as fast as on the {}", times(*other, best),
                      is_on_host ? "device, which leaves less memory for activations"
                                 : "host, because of its slower link")};
}

Why why_tier(const Candidate& best, const PlanRequest& request) {
  const std::string brief = fmt::format("uses {} of {}", format_bytes(best.fit.worst.high_water),
                                        format_bytes(request.budget.bytes));
  const std::string taken = "the largest micro-batch " + brief;
  if (best.config.tier == nn::Tier::kNone) return {brief, taken + " and keeps all activations"};
  return {brief, fmt::format("keeps as many activations as fit: {}", taken)};
}

Why why_frames(const Candidate& best, const PlanRequest& request) {
  if (best.config.max_frames == 0) {
    return short_why(best.micro_batches == 1
                         ? "a whole step fits into one micro-batch"
                         : fmt::format("no limit; {} micro-batches of {} utterances per step",
                                       best.micro_batches, best.config.micro_batch));
  }
  if (best.micro_batches == 1)
    return {"steps longer than the median are split",
            "a step of median length fits into one micro-batch; longer ones are split"};
  const char* const others =
      request.open.tier ? "larger ones would keep fewer activations, smaller ones would be slower"
                        : "this is the fastest size that fits";
  return {
      fmt::format("{} micro-batches per step", best.micro_batches),
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
  const auto add = [&](const char* key, std::string value, const Why& why) {
    reasons.push_back({.key = key, .value = std::move(value), .brief = why.brief, .why = why.full});
  };
  if (request.open.numerics)
    add("numerics", std::string(name_of(config.numerics, kNumerics)), why_numerics(plan, request));
  if (request.open.state)
    add("optimizer.state", std::string(name_of(config.optimizer.state, optim::kStateLocations)),
        why_state(plan, request));
  if (request.open.tier) add("tier", config.tier.to_string(), why_tier(plan.best, request));
  if (request.open.max_frames)
    add("max_frames", std::to_string(config.max_frames), why_frames(plan.best, request));
  if (config.micro_batch != request.config.micro_batch)
    add("micro_batch", std::to_string(config.micro_batch),
        short_why("larger micro-batches are not faster"));
  if (request.open.loss_rows && config.model.has_loss_rows()) {
    const int64_t rows = config.model.loss_rows();
    add("model.loss_rows", std::to_string(rows),
        rows == 0 ? short_why("the logits of the fastest chunk size fit")
                  : short_why("larger chunks of logits would leave less memory for activations"));
  }
  reasons.insert(reasons.end(), host.reasons.begin(), host.reasons.end());
  if (std::optional<Reason> split = split_reason(config.model))
    reasons.push_back(std::move(*split));
  return reasons;
}

std::optional<Reason> split_reason(const models::ModelOptions& model) {
  const std::optional<models::SplitDependence> split = model.split_dependence();
  if (!split) return std::nullopt;
  return Reason{.key = "model." + split->key,
                .value = split->value,
                .brief = kSplitMatters,
                .why = fmt::format("{}: {}", kSplitMatters, split->reason),
                .is_setting = false};
}

ConfigNode write_plan(const Plan& plan, const PlanRequest& request, const HostChoices& host) {
  ConfigNode tree = write_options(plan.best.config);
  for (const Reason& reason : reasons_of(plan, request, host)) {
    if (!reason.is_setting) continue;
    ConfigNode& node = node_of(tree, reason.key);
    node.comment = fmt::format("{}. Decided: {}", node.comment, reason.why);
  }
  if (const std::optional<Reason> split = split_reason(plan.best.config.model)) {
    ConfigNode& node = node_of(tree, split->key);
    node.comment = fmt::format("{}. Note: {}", node.comment, split->why);
  }
  return tree;
}

}  // namespace sotto::plan
