#include "sotto/plan/planner.h"
#include "sotto/kernels/loss/cross_entropy.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <ranges>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/units.h"
#include "sotto/kernels/loss/cross_entropy.h"
#include "sotto/plan/ladder.h"

namespace sotto::plan {

namespace {

using train::Numerics;

// A more exact arithmetic is preferred if it is at most this many times slower than the fastest.
constexpr double kMuchSlower = 1.5;

double seconds(const Candidate& candidate) {
  return candidate.time.total_s();
}

// Describes the fixed settings that affect memory: "tier: none and numerics: fp32 are fixed".
std::string fixed_text(const PlanRequest& request) {
  const train::RunConfig& config = request.config;
  std::vector<std::string> fixed;
  if (!request.open.numerics)
    fixed.push_back(fmt::format("numerics: {}", name_of(config.numerics, train::kNumerics)));
  if (!request.open.state)
    fixed.push_back(fmt::format("optimizer.state: {}",
                                name_of(config.optimizer.state, optim::kStateLocations)));
  if (!request.open.tier) fixed.push_back(fmt::format("tier: {}", config.tier.to_string()));
  if (!request.open.max_frames) fixed.push_back(fmt::format("max_frames: {}", config.max_frames));
  if (!config.adaptive_batching) {
    fixed.push_back(fmt::format("micro_batch: {} without adaptive_batching", config.micro_batch));
  } else if (!request.open.micro_batch) {
    fixed.push_back(fmt::format("micro_batch: {}", config.micro_batch));
  }
  if (fixed.empty()) return "";
  return fmt::format(" ({} {} fixed)", fmt::join(fixed, ", "), fixed.size() == 1 ? "is" : "are");
}

bool may_exceed(const data::EffectiveBatch& batch, int64_t utterances) {
  return batch.kind == data::EffectiveBatch::Kind::kSeconds || batch.utterances > utterances;
}

}  // namespace

// Searched lazily: on a CPU a coarser arithmetic is not searched where a finer one fits.
struct Planner::Branch {
  train::RunConfig config;
  std::unique_ptr<Search> made = {};

  std::string name() const {
    return fmt::format("{} with the optimizer's state on the {}",
                       name_of(config.numerics, train::kNumerics),
                       name_of(config.optimizer.state, optim::kStateLocations));
  }
};

Search& Planner::search_of(Branch& branch) {
  if (branch.made) return *branch.made;
  const train::RunConfig& config = branch.config;
  const SearchRequest search{.config = config,
                             .shape = request_.shape,
                             .target = request_.target,
                             .rates = request_.rates(config.arithmetic().compute),
                             .finds_tier = request_.open.tier,
                             .finds_max_frames = request_.open.max_frames};
  branch.made = std::make_unique<Search>(search, source_, epoch_);
  return *branch.made;
}

Planner::Planner(PlanRequest request, const data::Source& source)
    : request_(std::move(request)), source_(source), epoch_(request_.config, source_) {
  if (!request_.open.numerics)
    train::check_arithmetic(request_.config.arithmetic(), request_.target);
  const data::EffectiveBatch& batch = request_.config.effective_batch;
  if (request_.open.micro_batch && may_exceed(batch, kMostUtterances))
    request_.config.micro_batch = kMostUtterances;
  for (const Numerics numerics : numerics_to_try(request_)) {
    for (const optim::StateLocation location : locations_to_try(request_)) {
      for (const int64_t loss_rows : loss_rows_to_try()) {
        train::RunConfig& config = branches_.emplace_back(Branch{request_.config}).config;
        config.numerics = numerics;
        config.optimizer.state = location;
        if (config.model.has_loss_rows()) config.model.set_loss_rows(loss_rows);
      }
    }
  }
}

Planner::~Planner() = default;

// Returns the device's preferred number of rows, and the smallest possible one.
std::vector<int64_t> Planner::loss_rows_to_try() const {
  const models::ModelOptions& model = request_.config.model;
  if (!model.has_loss_rows() || !request_.open.loss_rows) return {model.loss_rows()};
  return {0, kernels::CrossEntropy::kRowStep};
}

std::vector<Candidate> Planner::candidates_in(const train::StepBudget& budget) {
  std::vector<Candidate> candidates;
  for (Branch& branch : branches_) {
    // A CPU computes bf16 inputs in fp32: that only saves memory.
    const bool is_coarser =
        !candidates.empty() && candidates.front().config.numerics != branch.config.numerics;
    if (!request_.target.is_cuda() && is_coarser) break;
    if (std::optional<Candidate> candidate = search_of(branch).best(budget))
      candidates.push_back(std::move(*candidate));
  }
  return candidates;
}

// Starts with the coarsest arithmetic, which is the fastest: those that must be much slower are not
// searched.
std::vector<Candidate> Planner::likely_candidates_in(const train::StepBudget& budget) {
  if (!request_.target.is_cuda()) return candidates_in(budget);
  std::vector<Candidate> candidates;
  double fastest = std::numeric_limits<double>::infinity();
  for (Branch& branch : std::views::reverse(branches_)) {
    Search& search = search_of(branch);
    if (!search.is_possible()) continue;
    if (search.least_seconds() > kMuchSlower * fastest) continue;
    std::optional<Candidate> candidate = search.likely_best(budget);
    if (!candidate) continue;
    fastest = std::min(fastest, seconds(*candidate));
    candidates.push_back(std::move(*candidate));
  }
  std::ranges::reverse(candidates);
  return candidates;
}

Plan Planner::plan() {
  std::vector<Candidate> candidates = candidates_in(request_.budget);
  if (candidates.empty()) refuse();
  const Candidate best = choose(candidates);
  const auto is_best = [&](const Candidate& candidate) {
    return candidate.config.numerics == best.config.numerics &&
           candidate.config.optimizer.state == best.config.optimizer.state &&
           candidate.config.tier == best.config.tier &&
           candidate.config.max_frames == best.config.max_frames;
  };
  for (Branch& branch : branches_) {
    const bool is_alike = branch.config.numerics == best.config.numerics &&
                          branch.config.optimizer.state == best.config.optimizer.state;
    if (!request_.open.tier || !is_alike) continue;
    for (const nn::Tier tier : tiers_of(request_.target))
      if (std::optional<Candidate> candidate = search_of(branch).best_at(tier, request_.budget))
        candidates.push_back(std::move(*candidate));
  }
  Plan plan{.best = best, .others = {}};
  for (Candidate& candidate : candidates)
    if (!is_best(candidate)) plan.others.push_back(std::move(candidate));
  std::ranges::stable_sort(plan.others, {}, seconds);
  return plan;
}

// Confirms only the selected alternative: if that makes it slower, another may be better.
std::optional<Candidate> Planner::best_in(int64_t arena_bytes) {
  const train::StepBudget budget{.bytes = arena_bytes, .host_bytes = request_.budget.host_bytes};
  while (true) {
    const std::vector<Candidate> candidates = likely_candidates_in(budget);
    if (candidates.empty()) return std::nullopt;
    const Candidate& likely = choose(candidates);
    std::optional<Candidate> candidate = search_of(branch_of(likely.config)).best(budget);
    if (candidate && seconds(*candidate) <= seconds(likely)) return candidate;
  }
}

Planner::Branch& Planner::branch_of(const train::RunConfig& config) {
  return *std::ranges::find_if(branches_, [&](const Branch& branch) {
    return branch.config.numerics == config.numerics &&
           branch.config.optimizer.state == config.optimizer.state &&
           branch.config.model.loss_rows() == config.model.loss_rows();
  });
}

std::vector<device::MomentPeak> Planner::timeline_of(const Candidate& candidate) const {
  train::DryRun dry(candidate.config, request_.shape, train::DryRun::Purpose::kTraining,
                    request_.target);
  std::vector<data::Example> step;
  for (const uint32_t index : epoch_.order.utterances(epoch_.median_step))
    step.push_back(source_.dry_at(index));
  return dry
      .trace_step(step, {.reduction = candidate.config.reduction,
                         .tier = candidate.config.tier,
                         .drops_layers = false,
                         .limits = candidate.fit.limits})
      .timeline;
}

// Selects the most exact arithmetic that is not much slower than the fastest; within it the fastest
// alternative.
const Candidate& Planner::choose(const std::vector<Candidate>& candidates) const {
  const double fastest = seconds(*std::ranges::min_element(candidates, {}, seconds));
  const Numerics numerics = std::ranges::find_if(candidates, [&](const Candidate& candidate) {
                              return seconds(candidate) <= kMuchSlower * fastest;
                            })->config.numerics;
  const Candidate* best = nullptr;
  for (const Candidate& candidate : candidates) {
    if (candidate.config.numerics != numerics) continue;
    if (best == nullptr || seconds(candidate) < seconds(*best)) best = &candidate;
  }
  return *best;
}

void Planner::refuse_split() const {
  throw Infeasible(
      {.attempted = "planning a run",
       .found = fmt::format("gradients in bf16, which every micro-batch rounds, and steps of more "
                            "than {} micro-batches{}",
                            train::kMaxBf16Sums, fixed_text(request_)),
       .expected = fmt::format("at most {}, or gradients in fp32", train::kMaxBf16Sums),
       .hint = "Use numerics: bf16-exact; or raise micro_batch or max_frames if they are set, or "
               "lower effective_batch."});
}

// Starts with the branch that is likely to take the least: the confirmed value may be larger, never
// smaller.
Planner::Branch* Planner::nearest() {
  const int64_t host_bytes = request_.budget.host_bytes;
  // A branch that fits into host memory ranks before any other.
  const auto rank_of = [&](const device::MemoryReport& memory) {
    return std::pair(memory.host_peak > host_bytes, memory.high_water);
  };
  using Rank = std::pair<bool, int64_t>;
  std::vector<std::pair<Rank, Branch*>> likely;
  for (Branch& branch : branches_) {
    Search& search = search_of(branch);
    if (search.is_possible())
      likely.emplace_back(rank_of(search.likely_least(host_bytes)), &branch);
  }
  std::ranges::stable_sort(likely, {}, &std::pair<Rank, Branch*>::first);
  Branch* nearest = nullptr;
  Rank best;
  for (const auto& [likely_rank, branch] : likely) {
    if (nearest != nullptr && likely_rank >= best) break;
    const std::optional<Search::Least> least = search_of(*branch).least(host_bytes);
    if (!least || (nearest != nullptr && rank_of(least->memory) >= best)) continue;
    nearest = branch;
    best = rank_of(least->memory);
  }
  return nearest;
}

Planner::Smallest Planner::find_smallest() {
  const int64_t host_bytes = request_.budget.host_bytes;
  Branch* const nearest = this->nearest();
  if (nearest == nullptr) refuse_split();
  Search::Least least = *search_of(*nearest).least(host_bytes);
  if (least.memory.host_peak <= host_bytes) return {.branch = nearest, .least = std::move(least)};
  throw Infeasible(
      {.attempted = "planning a run inside its budget",
       .found = fmt::format("{} on the host, as {}{}", format_bytes(least.memory.host_peak),
                            nearest->name(), fixed_text(request_)),
       .expected = fmt::format("at most {}", format_bytes(host_bytes)),
       .hint = fmt::format("--host-memory {} would do, if the machine has that much.",
                           format_mebibytes(least.memory.host_peak))});
}

int64_t Planner::smallest_arena() {
  return find_smallest().least.memory.high_water;
}

void Planner::refuse() {
  const auto [nearest, nearest_least] = find_smallest();
  const device::MemoryReport& least = nearest_least.memory;
  const int64_t needed = request_.budget.named_for(least.high_water);
  std::string hint = fmt::format("--memory {} would do.", format_mebibytes(needed));
  const char* before = " Or, cheapest first, each in addition to those before it:";
  PlanRequest from_there = request_;
  from_there.config = nearest_least.config;
  for (const Rung& rung : make_ladder(from_there, source_, epoch_, least.high_water)) {
    hint += fmt::format("{} {} needs {}", before, rung.to_string(),
                        format_bytes(request_.budget.named_for(rung.least_bytes)));
    before = ";";
  }
  const std::string who =
      search_of(*nearest).has_items_alone()
          ? fmt::format("the longest {} alone needs", request_.config.model.task().item)
          : "the smallest micro-batches that a step may have need";
  throw Infeasible({.attempted = "planning a run inside its budget",
                    .found = fmt::format("{} {}, as {}{}", who, format_bytes(needed),
                                         nearest->name(), fixed_text(request_)),
                    .expected = request_.budget.expected_text(),
                    .hint = hint});
}

}  // namespace sotto::plan
