// The stages of a run: their lengths, training from one to the next, and the weights that are
// carried on. A run without stages is one stage. How the next stage begins follows from the state
// at the end of the stage and from the checkpoints on disk, so that a killed run repeats it
// exactly.
#include <algorithm>
#include <numeric>

#include "sotto/core/error.h"
#include "sotto/train/checkpoint/ranking.h"
#include "sotto/train/checkpoint/state_conversion.h"
#include "sotto/train/run/resume.h"
#include "sotto/train/run/run_files.h"
#include "sotto/train/run/trainer.h"

namespace sotto::train {

namespace fs = std::filesystem;

void Trainer::set_length(const std::optional<Checkpoint>& checkpoint) {
  const RunConfig& config = request_.config;
  stages_ = stages_of(config, train_->lengths());
  if (state_.stage >= std::ssize(stages_))
    throw DataError({.attempted = "resuming a run",
                     .found = fmt::format("a checkpoint of stage {}", state_.stage + 1),
                     .expected = fmt::format("one of {} stages", stages_.size()),
                     .hint = "Use another checkpoint of the run."});
  if (config.stages.empty()) {
    set_length_of_only_stage(checkpoint);
  } else {
    plan_.stages = stages_;
    plan_.first_stage = state_.stage;
  }
  enter_stage();
  check_failing_step();
  if (checkpoint && state_.step >= plan_.total_steps)
    notify(events_.noted,
           fmt::format("the run is at step {} of {}{}", state_.step, plan_.total_steps,
                       config.stages.empty() ? "; a larger --max-steps extends it" : ""));
}

// The length may be another one than before the run was resumed.
void Trainer::set_length_of_only_stage(const std::optional<Checkpoint>& checkpoint) {
  const RunConfig& config = request_.config;
  Stage& stage = stages_.front();
  const int64_t per_epoch = stage.steps_per_epoch;
  const RunLength length =
      checkpoint ? length_of(config, per_epoch, *checkpoint) : length_of(config, per_epoch);
  stage.num_steps = length.total_steps;
  state_.schedule_steps = length.schedule_steps;
  if (!checkpoint) return;
  const std::string change = describe_change(length_of(checkpoint->config, per_epoch, *checkpoint),
                                             length, state_.step + 1, config.optimizer.schedule);
  if (!change.empty()) notify(events_.noted, change);
}

// Sets everything that follows from the number and the beginning of the stage.
void Trainer::enter_stage() {
  sampler_ = std::make_unique<data::Sampler>(sampler_options(request_.config, stage().num_samples),
                                             train_->lengths());
  plan_.steps_per_epoch = stage().steps_per_epoch;
  plan_.total_steps =
      std::accumulate(stages_.begin() + state_.stage, stages_.end(), state_.stage_begin,
                      [](int64_t steps, const Stage& later) { return steps + later.num_steps; });
  if (!request_.config.stages.empty()) state_.schedule_steps = stage().num_steps;
  if (learner_) learner_->optimizer.set_schedule(stage().schedule);
}

// What does not fit is found before the first step, not hours later.
void Trainer::audit_last_stage() {
  if (!has_next_stage()) return;
  const int64_t first_epoch = std::accumulate(
      stages_.begin(), stages_.end() - 1, int64_t{0}, [](int64_t epochs, const Stage& earlier) {
        return epochs + (earlier.num_steps + earlier.steps_per_epoch - 1) / earlier.steps_per_epoch;
      });
  const data::Sampler sampler(sampler_options(request_.config, stages_.back().num_samples),
                              train_->lengths());
  const EpochAudit audit =
      EpochAuditor(*dry_, *train_, budget_)
          .audit(sampler.epoch(first_epoch), settings_for(state_.stage_begin + 1));
  state_.limits = audit.fit.limits;
}

void Trainer::train_to_end() {
  if (state_.owes_evaluation) {
    evaluate_now();
    if (is_among_best()) save_or_warn();
  }
  if (state_.step == 0 && !request_.config.stages.empty()) report_stage({});
  train_stage();
  while (is_stage_over() && has_next_stage() && !summary_.was_stopped) {
    begin_next_stage();
    train_stage();
  }
}

void Trainer::train_stage() {
  if (is_stage_over()) return;
  const RunConfig& config = request_.config;
  data::Loader loader(*train_, *sampler_,
                      {.num_threads = config.data.loader_threads,
                       .max_bytes = loader_bytes(config.data),
                       .start = state_.next});
  while (!is_stage_over() && !summary_.was_stopped) {
    if (epoch_ != state_.next.epoch) begin_epoch(state_.next.epoch);
    const StepReport report = train_one(loader.next());
    notify(events_.stepped, report);
    watch(report);
    if (state_.owes_evaluation) evaluate_now();
    const bool is_late = now_s() - last_save_s_ > config.checkpoint_seconds;
    if (is_late || is_due(config.checkpoint_every) || is_among_best()) save_or_warn();
    summary_.was_stopped = events_.should_stop && events_.should_stop();
  }
}

// The end of the stage is saved first: until a checkpoint of the next stage is on the disk, a
// killed run resumes from there.
void Trainer::begin_next_stage() {
  if (last_saved_step_ != state_.step) save_or_warn();
  StageStart start = carry_best_on();
  ++state_.stage;
  state_.stage_begin = state_.step;
  if (state_.next.step > 0) state_.next = {.epoch = state_.next.epoch + 1, .step = 0};
  state_.plateau = {};
  state_.early_stopping = {};
  state_.metric.reset();
  enter_stage();
  report_stage(std::move(start));
}

// Loads the best checkpoint of the stage that can be read, unless the current weights are the best.
// Without an evaluation these are carried on.
StageStart Trainer::carry_best_on() {
  const StageStart current{.weights_of_step = state_.step, .metric = state_.metric};
  for (const RankedCheckpoint& best :
       rank_checkpoints(request_.folder, state_.dev_fingerprint, state_.stage)) {
    // Where its checkpoint could not be written, the current state has no rank.
    if (best.step == state_.step || (state_.metric && *state_.metric <= best.metric)) break;
    if (take_weights_of(best.path)) return {.weights_of_step = best.step, .metric = best.metric};
  }
  return current;
}

// Returns whether the learner now has the weights and moments of the checkpoint; otherwise it is
// unchanged.
bool Trainer::take_weights_of(const fs::path& folder) {
  try {
    check_checkpoint(folder, CheckpointPart::kAll);
    const Checkpoint best = read_checkpoint(folder);
    learner_->is_whole = false;
    load_learner(folder, *learner_);
    learner_->is_whole = true;
    if (best.config.arithmetic().compute == request_.config.arithmetic().compute)
      loss_scale_.restore(best.state.loss_scale, best.state.steps_since_scale_change);
    state_.loss_scale = loss_scale_.value();
    state_.steps_since_scale_change = loss_scale_.steps_since_change();
    // Bias correction counts the updates that the moments have seen.
    state_.skipped = best.state.skipped;
    state_.skipped.of_all += state_.step - best.state.step;
    learner_->optimizer.set_skipped_steps(state_.skipped);
    return true;
  } catch (const DataError& error) {
    // Nothing was changed.
    learner_->is_whole = true;
    notify(events_.warned, fmt::format("{} is the best of its stage, but cannot be used: {}",
                                       folder.string(), error.what()));
    return false;
  }
}

void Trainer::report_stage(StageStart start) {
  start.stage = state_.stage;
  start.num_stages = std::ssize(stages_);
  start.name = stage().name;
  start.num_samples = stage().num_samples;
  start.num_steps = stage().num_steps;
  start.first_step = state_.stage_begin + 1;
  start.total_steps = plan_.total_steps;
  metrics_->add(stage_record(start),
                {{.tag = "train/stage", .value = static_cast<double>(start.stage + 1)}});
  notify(events_.staged, start);
}

}  // namespace sotto::train
