#include "sotto/train/run/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/models/hub/hugging_face.h"
#include "sotto/train/checkpoint/init_from.h"
#include "sotto/train/checkpoint/run_name.h"
#include "sotto/train/checkpoint/state_conversion.h"
#include "sotto/train/run/resume.h"
#include "sotto/train/run/run_files.h"
#include "sotto/train/step/library_constant.h"

namespace sotto::train {

namespace {

// In the middle of a step: every step reserves more often.
constexpr int64_t kFailingReservation = 40;

// `scale`: the loss scale, where there is one.
std::string not_updated_text(const StepReport& report, double scale) {
  if (report.is_empty())
    return fmt::format("step {}: all of its utterances were skipped; the weights are unchanged",
                       report.step);
  if (scale > 0.0 && std::isfinite(report.result.loss))
    return fmt::format(
        "step {}: gradients overflowed at a loss scale of {}; the weights are "
        "unchanged, and the scale is halved{}",
        report.step, scale,
        scale / 2.0 < 1.0 ? ". Below 1 this no longer helps: the rate may be too high, or the "
                            "data broken"
                          : "");
  return fmt::format(
      "step {}: the gradients are not finite (loss {}); the weights are "
      "unchanged",
      report.step, report.result.loss);
}

}  // namespace

Trainer::Trainer(RunRequest request, RunEvents events)
    : request_(std::move(request)),
      events_(std::move(events)),
      loss_scale_(request_.config.arithmetic()) {
  const device::TargetScope target(request_.device.target);
  if (request_.config.name.empty()) request_.config.name = run_name_from(request_.folder);
  if (!request_.lock) request_.lock = std::make_shared<FolderLock>(request_.folder);
  check_run_folder(request_.folder);
  const RunConfig& config = request_.config;
  std::optional<Checkpoint> checkpoint;
  if (request_.resume_from) {
    checkpoint = read_checkpoint(*request_.resume_from);
    for (const std::string& note : check_settings(*checkpoint, config)) notify(events_.noted, note);
  }
  data_ = open_run_data(config, checkpoint ? std::optional(checkpoint->tokenizer) : std::nullopt,
                        events_.preparing);
  if (checkpoint) check_lines(*checkpoint, data_->fingerprint(), config.data.train);
  if (request_.decide) {
    request_.config = request_.decide(config, *data_);
    data_->follow(config);
  }
  loss_scale_ = LossScale(config.arithmetic());
  if (checkpoint) {
    state_ = checkpoint->state;
    // The scale applies only to the numerics that it was adjusted for.
    if (checkpoint->config.arithmetic().compute == config.arithmetic().compute)
      loss_scale_.restore(state_.loss_scale, state_.steps_since_scale_change);
  }
  state_.data_fingerprint = data_->fingerprint();
  const models::DataShape shape = data_->shape();
  state_.shape = shape;
  state_.device_name = request_.device.name;
  open_device(shape);
  dry_ =
      std::make_unique<DryRun>(config, shape, DryRun::Purpose::kTraining, request_.device.target);
  make_sources();
  identify_data(checkpoint);
  set_length(checkpoint);
  fit_to_budget(earlier_limits(checkpoint));
  // The lengths that were configured: stages may have ended early.
  check_release_interval(
      config.release_caches_every,
      std::accumulate(stages_.begin(), stages_.end(), int64_t{0},
                      [](int64_t steps, const Stage& stage) { return steps + stage.num_steps; }));

  const at::Device& torch_device = request_.device.torch;
  arena_ = std::make_shared<device::Arena>(
      torch_device.is_cuda() ? device::RegionKind::kCuda : device::RegionKind::kHost,
      budget_.bytes);
  guard_ = std::make_unique<device::ArenaGuard>(torch_device.type(), arena_);
  learner_ = std::make_unique<Learner>(config, shape, torch_device, budget_.host_bytes);
  load_first_weights(checkpoint);
  learner_->optimizer.set_schedule(stage().schedule);
  plan_.num_parameters = learner_->model->parameters().num_values();
  plan_.first_step = state_.step + 1;
}

// Loads the weights of a checkpoint or of another model; else the random initial weights are kept.
void Trainer::load_first_weights(const std::optional<Checkpoint>& checkpoint) {
  const RunConfig& config = request_.config;
  if (checkpoint) {
    model_config_ = checkpoint->model_config;
    learner_->optimizer.set_skipped_steps(state_.skipped);
    if (load_learner(*request_.resume_from, *learner_))
      notify(events_.warned,
             fmt::format("numerics changed from {} to {}: all state was converted without loss",
                         name_of(checkpoint->config.numerics, kNumerics),
                         name_of(config.numerics, kNumerics)));
  } else if (!config.init_from.empty()) {
    if (request_.inits_whole_model)
      model_config_ =
          models::read_model_config(models::find_model_folder(config.init_from.string()));
    for (const std::string& note :
         init_weights({.source = config.init_from, .is_whole_model = request_.inits_whole_model},
                      data_->tokenizer(), *learner_))
      notify(events_.warned, fmt::format("{}: {}", config.init_from.string(), note));
  } else if (const std::string id = config.model.pretrained_id(); !id.empty()) {
    // A user who names the preset may expect its weights.
    notify(events_.warned,
           fmt::format("{} starts from random weights. For the pretrained model type: "
                       "hf download {} and then --model {}",
                       config.model.preset(), id, id));
  }
}

// Memory of libraries on the device is part of the budget, and is measured before anything is
// fitted into it.
void Trainer::open_device(const models::DataShape& shape) {
  budget_ = take_budget(request_.config, shape, request_.device, request_.budget_bytes);
  plan_.constant_bytes = budget_.constant_bytes;
  plan_.budget_bytes = request_.budget_bytes;
  plan_.device_name = request_.device.name;
  plan_.numerics = request_.config.numerics;
}

void Trainer::make_sources() {
  const RunConfig& config = request_.config;
  train_ = data_->make_train([&](const data::Source& source) {
    // A resumed run keeps its training data, as long as it fits.
    const double fitting_s =
        BudgetFit(*dry_, source, budget_).longest_fitting_s(settings_for(state_.stage_begin + 1));
    const double before_s = state_.longest_fitting_s;
    state_.longest_fitting_s = before_s > 0.0 && before_s <= fitting_s ? before_s : fitting_s;
    return state_.longest_fitting_s;
  });
  dev_ = data_->make_dev();
  if (dev_) {
    // On a CPU the host's memory is the budget.
    const int64_t host_bytes = request_.device.target.is_cuda() ? 0 : request_.budget_bytes;
    decoding_ = std::make_unique<decode::Decoding>(
        config.decode, data_->tokenizer(), decode::DecodingResources{.max_bytes = host_bytes});
    normalizer_ = decode::normalizer_of(config.decode, data_->tokenizer());
  }
  const bool has_plateau = config.stages.empty()
                               ? config.optimizer.schedule.kind == optim::ScheduleKind::kPlateau
                               : std::ranges::any_of(config.stages, [](const StageOptions& stage) {
                                   return stage.schedule.kind == optim::ScheduleKind::kPlateau;
                                 });
  if (!dev_ && has_plateau)
    throw ConfigError({.attempted = "setting up the schedule",
                       .found = "kind: plateau without evaluation data",
                       .hint = "Name a manifest with --dev, or choose another schedule."});
  if (!dev_ && config.early_stopping.patience > 0)
    throw ConfigError({.attempted = "setting up early stopping",
                       .found = "early_stopping without evaluation data",
                       .hint = "Name a manifest with --dev, or remove early_stopping."});
}

// Records fingerprints of the training and evaluation data for checkpoints; for a resumed run the
// training data must be unchanged.
void Trainer::identify_data(const std::optional<Checkpoint>& checkpoint) {
  if (checkpoint) check_items(checkpoint->state, *train_);
  state_.order_fingerprint = order_fingerprint(*train_);
  if (state_.file_hashes.empty()) {
    for (const data::FileHash& file : train_->hash_files(kHashedFiles))
      state_.file_hashes.push_back(file.hash);
  }
  state_.dev_fingerprint =
      dev_ ? dev_->fingerprint() ^ decode::fingerprint(request_.config.decode) : 0;
  if (dev_) dev_->check_files();
  state_.owes_evaluation = state_.owes_evaluation && dev_ != nullptr;
  const uint64_t before = checkpoint ? checkpoint->state.dev_fingerprint : 0;
  if (before == 0 || before == state_.dev_fingerprint) return;
  notify(events_.noted,
         "the evaluation data or its search has changed: evaluations before and after it cannot be "
         "compared");
  // The earlier best metric is not comparable with later ones; a reduced rate stays reduced.
  state_.plateau = {.factor = state_.plateau.factor};
  state_.early_stopping = {};
  state_.metric.reset();
}

void Trainer::fit_to_budget(const std::optional<EarlierLimits>& earlier) {
  const RunConfig& config = request_.config;
  plan_.num_utterances = train_->num_items();
  const std::vector<float> lengths = train_->lengths();
  const double length = std::accumulate(lengths.begin(), lengths.end(), 0.0);
  if (config.model.task().is_text()) {
    plan_.num_tokens = std::llround(length);
  } else {
    plan_.audio_seconds = length;
    plan_.padding = padding_of(lengths, sampler_->epoch(0));
  }
  plan_.num_skipped = train_->num_skipped();
  if (!train_->skipped().empty()) {
    notify(events_.warned, fmt::format("skipped {} training {}; the first: {}", plan_.num_skipped,
                                       plan_.num_skipped == 1 ? "utterance" : "utterances",
                                       train_->skipped().front().reason));
  }
  largest_item_ = find_largest_item(dry_->model(), *train_);
  BudgetFit fit(*dry_, *train_, budget_);
  RunLimits found =
      find_run_limits(fit, budget_, config, settings_for(state_.stage_begin + 1), earlier);
  if (!found.note.empty()) notify(events_.warned, found.note);
  has_new_limits_ = !found.note.empty();
  plan_.fit = std::move(found.fit);
  state_.limits = plan_.fit.limits;
  if (!earlier || has_new_limits_) audit_last_stage();
  if (dev_) {
    evaluation_limits_ = fit_recognition(*dry_, *dev_, budget_, state_.limits).limits;
    if (const int64_t most = config.evaluation_micro_batch; most > 0)
      evaluation_limits_ = narrower(evaluation_limits_, {.max_utterances = most});
  }
}

LimitsBasis Trainer::limits_basis() const {
  return basis_of(request_.config, request_.device.name);
}

// Returns the limits of the checkpoint, and those learned since.
std::optional<EarlierLimits> Trainer::earlier_limits(
    const std::optional<Checkpoint>& checkpoint) const {
  if (!checkpoint) return std::nullopt;
  const LimitsBasis now = limits_basis();
  // Earlier versions did not store the device's name.
  const std::string& device = checkpoint->state.device_name;
  const LimitsBasis before = basis_of(checkpoint->config, device.empty() ? now.device : device);
  return EarlierLimits{
      .limits = narrower(checkpoint->state.limits, read_learned_limits(request_.folder, before)),
      .learned = read_learned_limits(request_.folder, now),
      .is_same_budget = before == now};
}

StepSettings Trainer::settings_for(int64_t step) const {
  return {.reduction = request_.config.reduction,
          .tier = request_.config.tier,
          .seed = static_cast<uint64_t>(request_.config.seed),
          .step = step,
          .total_steps = state_.schedule_steps,
          .schedule_begin = state_.stage_begin,
          .rate_factor = state_.plateau.factor,
          .loss_scale = loss_scale_.value(),
          .limits = state_.limits,
          .largest_item = largest_item_};
}

RunSummary Trainer::run() {
  const device::TargetScope target(request_.device.target);
  if (!learner_->is_whole)
    throw DataError({.attempted = "continuing a run",
                     .found = "weights of a failed update",
                     .expected = "weights of a completed step",
                     .hint = "Make a new trainer that resumes from the latest checkpoint."});
  summary_ = {};
  if (!metrics_) open_folder();
  monitor_.emplace(
      request_.read_device ? request_.read_device : device::watch_memory(request_.device),
      plan_.fit.worst.peak);
  notify(events_.planned, plan_);
  const double start = now_s();
  last_save_s_ = start;
  try {
    train_to_end();
  } catch (...) {
    save_after_failure();
    throw;
  }
  if (last_saved_step_ != state_.step) save_now();
  if (request_.device.target.is_cuda())
    note_library_use(request_.device, request_.config.arithmetic().compute,
                     device::used_by_this_process(request_.device) - budget_.bytes);
  summary_.steps = state_.step;
  summary_.best_metric = state_.best_metric;
  summary_.best_step = state_.best_step;
  summary_.ended_early = state_.step < plan_.total_steps && ends_early();
  summary_.seconds = now_s() - start;
  return std::move(summary_);
}

void Trainer::begin_epoch(int64_t epoch) {
  epoch_ = epoch;
  epoch_order_ = sampler_->epoch(epoch);
  const EpochAudit audit =
      EpochAuditor(*dry_, *train_, budget_).audit(epoch_order_, settings_for(state_.step + 1));
  notify(events_.audited, epoch, audit);
  if (!(audit.fit.limits == state_.limits)) {
    state_.limits = audit.fit.limits;
    notify(events_.warned, fmt::format("epoch {}: at most {} per micro-batch now", epoch + 1,
                                       describe(state_.limits)));
  }
}

StepReport Trainer::train_one(const data::LoadedStep& loaded) {
  const double start = now_s();
  for (const data::SkippedUtterance& skipped : loaded.skipped) report_skipped(skipped);
  StepSettings settings = settings_for(state_.step + 1);
  StepReport report{.step = settings.step,
                    .total_steps = plan_.total_steps,
                    .epoch = loaded.position.epoch,
                    .num_utterances = std::ssize(loaded.examples)};
  if (loaded.examples.empty()) {
    learner_->optimizer.skip_step();
    report.result.loss = std::numeric_limits<double>::quiet_NaN();
  } else {
    if (settings.step == request_.failing_step) arena_->inject_failure(kFailingReservation);
    report.result = run_with_retries(loaded.examples, settings);
  }
  const double loss_scale = loss_scale_.value();
  commit_step(loaded, settings, report.result);

  const device::MemoryReport memory = memory_of_step(*arena_, *learner_, report.result);
  if (settings.step == plan_.first_step && summary_.num_restarts == 0 && !loaded.examples.empty())
    compare_first_step(loaded.examples, settings, memory);
  for (const data::Example& example : loaded.examples) report.audio_seconds += example.seconds;
  report.peak_bytes = memory.peak;
  report.live_bytes = memory.live;
  report.reserved_bytes = memory.high_water;
  report.ends_epoch = state_.next.epoch != loaded.position.epoch;
  report.seconds = now_s() - start;
  finish_step(report, loss_scale);
  return report;
}

// A failure in a step that this process does not run would have no effect.
void Trainer::check_failing_step() const {
  const int64_t step = request_.failing_step;
  if (step == 0 || (step > state_.step && step <= plan_.total_steps)) return;
  throw ConfigError({.attempted = "setting up a failure for lack of memory",
                     .found = fmt::format("step {}", step),
                     .expected = fmt::format("a step from {} to {}, the last of the run",
                                             state_.step + 1, plan_.total_steps),
                     .hint = "Change --inject-oom."});
}

void Trainer::report_skipped(const data::SkippedUtterance& skipped) {
  notify(events_.warned, fmt::format("skipped: {}", skipped.reason));
  metrics_->add(skipped_record(state_.step + 1, skipped));
}

StepResult Trainer::run_with_retries(std::span<const data::Example> examples,
                                     StepSettings& settings) {
  return run_step_with_retries(
      *learner_, examples, settings, *arena_,
      {.restarted =
           [&](const Restart& restart) {
             ++summary_.num_restarts;
             learn_limits(restart);
           },
       .most_micro_batches =
           [&](const MicroBatchLimits& limits) {
             return EpochAuditor(*dry_, *train_, budget_).most_micro_batches(epoch_order_, limits);
           }});
}

// The weights have changed: from here on the state is that after the step, whatever fails next.
void Trainer::commit_step(const data::LoadedStep& loaded, const StepSettings& settings,
                          const StepResult& result) {
  if (!loaded.examples.empty()) loss_scale_.update(result.is_updated);
  state_.loss_scale = loss_scale_.value();
  state_.steps_since_scale_change = loss_scale_.steps_since_change();
  state_.skipped = learner_->optimizer.skipped_steps();
  state_.limits = settings.limits;
  state_.step = settings.step;
  state_.metric.reset();
  state_.next = following(loaded.position);
  state_.owes_evaluation = dev_ != nullptr && is_due(request_.config.evaluate_every);
}

data::StepPosition Trainer::following(const data::StepPosition& position) const {
  if (position.step + 1 < epoch_order_.num_steps())
    return {.epoch = position.epoch, .step = position.step + 1};
  return {.epoch = position.epoch + 1, .step = 0};
}

void Trainer::finish_step(const StepReport& report, double loss_scale) {
  ++summary_.num_steps;
  if (!report.is_empty()) summary_.loss = report.result.loss;
  summary_.peak_bytes = std::max(summary_.peak_bytes, report.peak_bytes);
  summary_.audio_seconds += report.audio_seconds;
  if (plan_.num_tokens > 0) summary_.num_tokens += report.result.num_frames;
  if (!report.result.is_updated)
    notify(events_.warned, not_updated_text(report, loss_scale_.is_dynamic() ? loss_scale : 0.0));
  for (const int64_t utterance : report.result.infeasible) {
    if (!infeasible_.insert(utterance).second) continue;
    notify(events_.warned,
           fmt::format("{}: more labels than its frames allow; its CTC loss counts as 0",
                       train_->where(utterance)));
  }
  metrics_->add(step_record(report), step_scalars(report));
}

void Trainer::watch(const StepReport& report) {
  const RunConfig& config = request_.config;
  const Monitor::Findings findings =
      monitor_->check({.step = report.step, .peak_bytes = report.peak_bytes, .time_s = now_s()});
  for (const std::string& warning : findings.warnings) notify(events_.warned, warning);
  const int64_t every = config.release_caches_every;
  if (findings.should_release) {
    // Releasing decoded audio that is not in device memory would not help.
    const bool has_audio =
        config.data.cache == data::CacheKind::kMemory && !request_.device.target.is_cuda();
    give_back_caches(has_audio ? data_->audio_cache() : nullptr, Afterwards::kStaysEmpty);
  } else if (every > 0 && report.step % every == 0) {
    give_back_caches(data_->audio_cache(), Afterwards::kTakesIn);
  }
}

void Trainer::give_back_caches(data::AudioCache* audio, Afterwards afterwards) {
  const ReleasedCaches released = release_caches(audio, afterwards, *learner_);
  metrics_->add(release_record(state_.step, released));
  notify(events_.released, state_.step, released);
}

void Trainer::compare_first_step(std::span<const data::Example> examples,
                                 const StepSettings& settings,
                                 const device::MemoryReport& measured) {
  const MemoryComparison comparison =
      compare_memory(dry_->trace_step(examples, settings), measured);
  warn_where_unwritten("memory.json was not written",
                       [&] { write_memory_file(request_.folder, settings.step, comparison); });
  notify(events_.compared, comparison);
  check_settings_took_effect(comparison, request_.config);
}

void Trainer::evaluate_now() {
  Evaluation evaluation = evaluate_with_retries(
      evaluation_limits_, find_largest_item(dry_->model(), *dev_),
      {.run =
           [&](const MicroBatchLimits& limits) {
             return evaluate(*learner_->model, *dev_, data_->tokenizer(), learner_->staging,
                             {.task = &request_.config.model.task(),
                              .limits = limits,
                              .decoding = decoding_->options(),
                              .normalizer = normalizer_ ? &*normalizer_ : nullptr,
                              .device = learner_->device,
                              .loader_threads = request_.config.data.loader_threads});
           },
       .retried =
           [&](const std::string& reason, const MicroBatchLimits& limits) {
             learner_->release_caches();
             notify(events_.warned,
                    fmt::format("the evaluation ran out of memory and is repeated with {}: {}",
                                describe(limits), reason));
           }});
  metrics_->add(evaluation_record(state_.step, evaluation), evaluation_scalars(evaluation));
  state_.plateau.update(stage().schedule, evaluation.metric());
  state_.early_stopping.update(request_.config.early_stopping, evaluation.metric());
  state_.owes_evaluation = false;
  if (std::isfinite(evaluation.metric())) state_.metric = evaluation.metric();
  if (Task::is_better(evaluation.metric(), state_.best_metric)) keep_as_best(evaluation.metric());
  notify(events_.evaluated, state_.step, evaluation);
  summary_.last_evaluation = std::move(evaluation);
}

bool Trainer::is_due(int64_t every) const {
  if (state_.step == end_of_stage()) return true;
  return every > 0 ? state_.step % every == 0 : state_.next.step == 0;
}

}  // namespace sotto::train
