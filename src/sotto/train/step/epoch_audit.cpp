#include "sotto/train/step/epoch_audit.h"

#include <algorithm>
#include <set>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/units.h"

namespace sotto::train {

namespace {

using data::Example;

}  // namespace

EpochAuditor::EpochAuditor(DryRun& dry, const data::Source& source, const StepBudget& budget)
    : dry_(dry), source_(source), budget_(budget) {}

EpochAudit EpochAuditor::measure(const data::EpochOrder& epoch, const StepSettings& settings,
                                 size_t count) {
  return audit_of(epoch, settings.limits,
                  find_worst(epoch, settings, count, /*stops_at_breach=*/true));
}

EpochAudit EpochAuditor::audit(const data::EpochOrder& epoch, const StepSettings& settings) {
  StepSettings lowered = settings;
  while (true) {
    const Worst worst = find_worst(epoch, lowered, kAudited, /*stops_at_breach=*/false);
    check_micro_batches(dry_.gradient_type(), worst.most_micro_batches);
    if (budget_.holds(worst.report)) return audit_of(epoch, lowered.limits, worst);
    if (!lowered.limits.is_adaptive || worst.candidate.utterances == 1)
      refuse_step(epoch, worst.candidate, lowered.limits, worst.report);
    lowered.limits = lower(lowered.limits, worst.candidate, settings.largest_item);
  }
}

MicroBatchLimits EpochAuditor::lower(MicroBatchLimits limits, const Candidate& worst,
                                     const LargestItem& item) {
  if (limits.max_frames > item.frames) {
    limits.max_frames = std::max(std::min(limits.max_frames, worst.frames) * 19 / 20, item.frames);
  } else {
    limits.max_utterances = std::max<int64_t>(1, worst.utterances * 19 / 20);
  }
  return limits;
}

std::vector<int64_t> EpochAuditor::worst_steps(const data::EpochOrder& epoch,
                                               const StepSettings& settings, size_t count) {
  std::set<int64_t> candidates;
  for (const Candidate& candidate :
       largest_of(candidates_of(epoch, settings.limits), count, /*is_one_per_step=*/true))
    candidates.insert(candidate.step);
  std::vector<std::pair<int64_t, int64_t>> steps;  // with their peak bytes
  for (const int64_t step : candidates) {
    std::vector<Example> examples;
    for (const uint32_t index : epoch.utterances(step)) examples.push_back(source_.dry_at(index));
    steps.emplace_back(dry_.run_step(examples, settings).peak, step);
  }
  std::ranges::stable_sort(steps, std::greater<>(), &std::pair<int64_t, int64_t>::first);
  if (steps.size() > count) steps.resize(count);
  std::vector<int64_t> worst;
  for (const auto& [bytes, step] : steps) worst.push_back(step);
  return worst;
}

int64_t EpochAuditor::most_micro_batches(const data::EpochOrder& epoch,
                                         const MicroBatchLimits& limits) const {
  int64_t most = 0;
  for (int64_t step = 0; step < epoch.num_steps(); ++step)
    most = std::max(most, std::ssize(split(epoch.utterances(step), limits)));
  return most;
}

std::vector<EpochAuditor::Candidate> EpochAuditor::largest_of(std::vector<Candidate> candidates,
                                                              size_t count, bool is_one_per_step) {
  std::vector<Candidate> chosen;
  std::set<std::pair<int64_t, size_t>> seen;
  for (int64_t Candidate::* const size : {&Candidate::frames, &Candidate::labels, &Candidate::nodes,
                                          &Candidate::segments, &Candidate::padded}) {
    // Speech has no segments, and only a transducer has nodes.
    if (std::ranges::all_of(candidates, [&](const Candidate& one) { return one.*size == 0; }))
      continue;
    std::ranges::stable_sort(candidates, std::greater<>(), size);
    std::set<int64_t> steps;
    size_t num_taken = 0;
    for (const Candidate& candidate : candidates) {
      if (num_taken == count) break;
      if (is_one_per_step && !steps.insert(candidate.step).second) continue;
      ++num_taken;
      if (seen.insert({candidate.step, candidate.number}).second) chosen.push_back(candidate);
    }
  }
  return chosen;
}

EpochAuditor::Worst EpochAuditor::find_worst(const data::EpochOrder& epoch,
                                             const StepSettings& settings, size_t count,
                                             bool stops_at_breach) {
  const std::vector<Candidate> candidates = candidates_of(epoch, settings.limits);
  // A candidate that does not fit ranks above any that does, even if only host memory is exceeded.
  const auto rank = [&](const device::MemoryReport& report) {
    return std::pair(!budget_.holds(report), report.high_water);
  };
  Worst worst;
  for (const Candidate& candidate : candidates)
    worst.most_micro_batches =
        std::max(worst.most_micro_batches, static_cast<int64_t>(candidate.number) + 1);
  for (const Candidate& candidate : largest_of(candidates, count, /*is_one_per_step=*/false)) {
    device::MemoryReport report =
        dry_.run_micro_batch(examples_of(epoch, candidate, settings.limits), settings.tier);
    if (rank(report) <= rank(worst.report)) continue;
    worst.report = std::move(report);
    worst.candidate = candidate;
    if (stops_at_breach && !budget_.holds(worst.report)) break;
  }
  return worst;
}

EpochAudit EpochAuditor::audit_of(const data::EpochOrder& epoch, const MicroBatchLimits& limits,
                                  const Worst& worst) {
  return {.fit = {.limits = limits, .worst = worst.report},
          .num_steps = epoch.num_steps(),
          .worst_step = worst.candidate.step + 1,
          .most_micro_batches = worst.most_micro_batches};
}

// Throws with the utterances of a micro-batch that does not fit and cannot be split.
void EpochAuditor::refuse_step(const data::EpochOrder& epoch, const Candidate& candidate,
                               const MicroBatchLimits& limits, const device::MemoryReport& needed) {
  constexpr size_t kNamed = 8;
  const std::span<const uint32_t> step = epoch.utterances(candidate.step);
  const std::vector<int64_t> indices = split(step, limits)[candidate.number];
  std::string who;
  for (size_t i = 0; i < std::min(kNamed, indices.size()); ++i) {
    const uint32_t index = step[static_cast<size_t>(indices[i])];
    who += (i == 0 ? "" : ", ") + source_.where(source_.utterance_at(index));
  }
  if (indices.size() > kNamed) who += fmt::format(" and {} more", indices.size() - kNamed);
  const int64_t bytes = budget_.named_for(needed.high_water);
  throw Infeasible(
      {.attempted =
           fmt::format("checking step {} of an epoch before it starts", candidate.step + 1),
       .found = fmt::format("{} for a micro-batch of {}", format_bytes(bytes), who),
       .expected = budget_.expected_text(),
       .hint = fmt::format("--memory {} would do; or lower micro_batch, or skip long utterances: "
                           "--set data.too_large=skip.",
                           format_mebibytes(bytes))});
}

std::vector<std::vector<int64_t>> EpochAuditor::split(std::span<const uint32_t> step,
                                                      const MicroBatchLimits& limits) const {
  std::vector<data::ExampleSize> sizes;
  for (const uint32_t index : step) sizes.push_back(source_.size_of(index));
  return split_sizes(dry_.model(), sizes, limits,
                     [&](size_t i) { return source_.where(source_.utterance_at(step[i])); });
}

std::vector<Example> EpochAuditor::examples_of(const data::EpochOrder& epoch,
                                               const Candidate& candidate,
                                               const MicroBatchLimits& limits) const {
  const std::span<const uint32_t> step = epoch.utterances(candidate.step);
  const std::vector<std::vector<int64_t>> micro_batches = split(step, limits);
  std::vector<Example> examples;
  for (const int64_t i : micro_batches[candidate.number])
    examples.push_back(source_.dry_at(step[static_cast<size_t>(i)]));
  return examples;
}

std::vector<EpochAuditor::Candidate> EpochAuditor::candidates_of(
    const data::EpochOrder& epoch, const MicroBatchLimits& limits) const {
  std::vector<Candidate> candidates;
  for (int64_t number = 0; number < epoch.num_steps(); ++number) {
    const std::span<const uint32_t> step = epoch.utterances(number);
    const std::vector<std::vector<int64_t>> micro_batches = split(step, limits);
    size_t of_step = 0;
    for (const std::vector<int64_t>& micro_batch : micro_batches) {
      Candidate& candidate =
          candidates.emplace_back(Candidate{.step = number, .number = of_step++});
      int64_t longest = 0;
      for (const int64_t i : micro_batch) {
        const data::ExampleSize size = source_.size_of(step[static_cast<size_t>(i)]);
        const data::ItemSize counted = dry_.model().size_of(size);
        longest = std::max(longest, counted.frames);
        ++candidate.utterances;
        candidate.frames += counted.frames;
        candidate.labels += size.labels;
        candidate.nodes += counted.nodes;
        candidate.segments += size.segments;
      }
      candidate.padded = candidate.utterances * longest;
    }
  }
  return candidates;
}

}  // namespace sotto::train
