#include "sotto/train/run/rehearsal.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/train/step/epoch_audit.h"
#include "sotto/train/step/library_constant.h"
#include "sotto/train/step/recovery.h"
#include "sotto/train/step/stages.h"

namespace sotto::train {

namespace {

// Maximum number of copies of one item in a micro-batch: larger batches give no further information
// about memory.
constexpr int64_t kMostCopies = 65'536;

// Returns the largest count, at least 0, for which `fits` is true: doubling, then bisection.
template <class Fits>
int64_t largest_fitting(Fits fits) {
  int64_t good = 0, bad = 1;
  while (bad <= kMostCopies && fits(bad)) {
    good = bad;
    bad *= 2;
  }
  if (bad > kMostCopies) return good;
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

}  // namespace

Rehearsal::Rehearsal(RunConfig config, const device::RunDevice& device, int64_t budget_bytes)
    : config_(std::move(config)), device_(device), data_(open_run_data(config_, std::nullopt, {})) {
  const device::TargetScope target(device_.target);
  const models::DataShape shape = data_->shape();
  budget_ = take_budget(config_, shape, device_, budget_bytes);
  dry_ = std::make_unique<DryRun>(config_, shape, DryRun::Purpose::kTraining, device_.target);
  source_ = data_->make_train([&](const data::Source& source) {
    return BudgetFit(*dry_, source, budget_).longest_fitting_s(settings());
  });
  epoch_ = data::Sampler(sampler_options(config_, largest_stage(config_, source_->num_items())),
                         source_->lengths())
               .epoch(0);
  BudgetFit fit(*dry_, *source_, budget_);
  StepSettings first = settings();
  first.limits = limits_of(config_);
  limits_ = fit.find_limits(config_.effective_batch, first).limits;
  first.limits = limits_;
  limits_ = EpochAuditor(*dry_, *source_, budget_).audit(epoch_, first).fit.limits;
  arena_ = std::make_shared<device::Arena>(
      device_.torch.is_cuda() ? device::RegionKind::kCuda : device::RegionKind::kHost,
      budget_.bytes);
  guard_ = std::make_unique<device::ArenaGuard>(device_.torch.type(), arena_);
  learner_ = std::make_unique<Learner>(config_, shape, device_.torch, budget_.host_bytes);
}

Rehearsal::~Rehearsal() = default;

StepSettings Rehearsal::settings() const {
  return {.reduction = config_.reduction,
          .tier = config_.tier,
          .seed = static_cast<uint64_t>(config_.seed),
          .total_steps = std::max<int64_t>(1, epoch_.num_steps()),
          .limits = limits_};
}

std::vector<data::Example> Rehearsal::load(int64_t step) const {
  std::vector<data::Example> examples;
  for (const uint32_t index : epoch_.utterances(step)) {
    std::variant<data::Example, data::SkippedUtterance> item = source_->load(index, /*epoch=*/0);
    if (auto* const example = std::get_if<data::Example>(&item))
      examples.push_back(std::move(*example));
  }
  return examples;
}

std::vector<Rehearsal::Step> Rehearsal::run_worst(int64_t num_steps,
                                                  const std::function<void(const Step&)>& on_step) {
  const device::TargetScope target(device_.target);
  std::vector<Step> done;
  for (const int64_t number :
       EpochAuditor(*dry_, *source_, budget_)
           .worst_steps(epoch_, settings(), static_cast<size_t>(num_steps))) {
    const std::vector<data::Example> examples = load(number);
    if (examples.empty()) continue;
    StepSettings own = settings();
    own.step = std::ssize(done) + 1;
    Step step{.number = number + 1,
              .num_utterances = std::ssize(examples),
              .planned = dry_->run_step(examples, own),
              .measured = {}};
    for (const data::Example& example : examples) step.audio_seconds += example.seconds;
    arena_->reset_peak();
    learner_->release_caches();
    learner_->host.reset_peak();
    const auto start = std::chrono::steady_clock::now();
    const StepResult result = run_step(*learner_, examples, own);
    step.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    step.num_micro_batches = result.num_micro_batches;
    step.measured = memory_of_step(*arena_, *learner_, result);
    if (device_.torch.is_cuda()) step.shown_bytes = device::used_by_this_process(device_);
    if (on_step) on_step(step);
    done.push_back(std::move(step));
  }
  return done;
}

std::vector<data::Example> Rehearsal::copies_of_longest(int64_t count) const {
  const std::vector<float> lengths = source_->lengths();
  const auto longest = std::ranges::max_element(lengths) - lengths.begin();
  std::variant<data::Example, data::SkippedUtterance> item = source_->load(longest, /*epoch=*/0);
  if (const auto* const skipped = std::get_if<data::SkippedUtterance>(&item))
    throw DataError({.attempted = "loading the longest item", .found = skipped->reason});
  const data::Example& example = std::get<data::Example>(item);
  std::vector<data::Example> copies(static_cast<size_t>(count), example);
  for (size_t i = 0; i < copies.size(); ++i) copies[i].utterance = static_cast<int64_t>(i);
  return copies;
}

Rehearsal::LargestBatch Rehearsal::find_largest(const std::function<void(const Trial&)>& on_trial) {
  const device::TargetScope target(device_.target);
  LargestBatch largest;
  largest.item_frames = dry_->model().size_of(data::size_of(copies_of_longest(1).front())).frames;
  StepSettings whole = settings();
  whole.limits = {};
  largest.predicted = largest_fitting([&](int64_t count) {
    const device::MemoryReport report = dry_->run_step(copies_of_longest(count), whole);
    return report.high_water <= budget_.bytes && report.host_peak <= budget_.host_bytes;
  });
  largest.tried =
      largest_fitting([&](int64_t count) { return fits_really(count, largest, on_trial); });
  return largest;
}

double Rehearsal::time_copies(int64_t count) {
  constexpr size_t kRepeats = 3;
  const device::TargetScope target(device_.target);
  const std::vector<data::Example> copies = copies_of_longest(count);
  StepSettings whole = settings();
  whole.limits = {};
  std::vector<double> seconds;
  for (size_t i = 0; i < kRepeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run_step(*learner_, copies, whole);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    seconds.push_back(elapsed.count());
  }
  std::ranges::sort(seconds);
  return seconds[kRepeats / 2];
}

bool Rehearsal::fits_really(int64_t count, LargestBatch& largest,
                            const std::function<void(const Trial&)>& on_trial) {
  Trial trial{.count = count};
  StepSettings whole = settings();
  whole.limits = {};
  try {
    arena_->reset_peak();
    run_step(*learner_, copies_of_longest(count), whole);
    trial.fits = true;
    const device::MemoryReport report = arena_->report();
    trial.peak = report.peak;
    trial.high_water = report.high_water;
  } catch (const std::exception& error) {
    if (!out_of_memory_reason(error)) throw;
  }
  if (on_trial) on_trial(trial);
  largest.trials.push_back(trial);
  return trial.fits;
}

}  // namespace sotto::train
