// Files that a run writes during training: checkpoints, the best of them, learned limits.
#include <chrono>
#include <exception>
#include <limits>

#include "sotto/core/error.h"
#include "sotto/core/files/file_system.h"
#include "sotto/train/checkpoint/ranking.h"
#include "sotto/train/run/run_files.h"
#include "sotto/train/run/trainer.h"

namespace sotto::train {

namespace {

namespace fs = std::filesystem;

// Number of checkpoints to keep for their evaluation. A single one is only in best/.
int64_t num_best(const RunConfig& config) {
  return config.keep_best > 1 ? config.keep_best : 0;
}

}  // namespace

double Trainer::now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Writes the files of the run's folder other than checkpoints, once per process.
void Trainer::open_folder() {
  clear_leftovers(request_.folder);
  write_config_file(request_.folder, request_.config);
  warn_of_folder();
  if (request_.resume_from) {
    take_best_from_folder();
  } else {
    forget_learned_limits(request_.folder);
  }
  if (has_new_limits_) keep_limits();
  metrics_.emplace(request_.folder, state_.step + 1, events_.warned, events_.recorded);
  if (request_.resume_from) metrics_->add(resume_record(state_.step));
}

// Warns about the contents of the run's folder.
void Trainer::warn_of_folder() {
  for (const fs::path& path : set_aside_beyond(request_.folder, state_.step, request_.resume_from))
    notify(events_.warned,
           fmt::format("continuing from step {}: a later checkpoint was renamed to {}", state_.step,
                       path.string()));
  const FileSystem disk = file_system_at(request_.folder);
  if (disk.renames_at_once) return;
  notify(
      events_.warned,
      fmt::format("{} is on {}, which may not rename folders atomically: each checkpoint is read "
                  "back before the one it replaces is removed",
                  request_.folder.string(), disk.name));
}

// Where it cannot be written, the previous best is kept, and the next evaluation tries again.
void Trainer::keep_as_best(double metric) {
  Checkpoint best = current_checkpoint();
  best.state.best_metric = metric;
  best.state.best_step = state_.step;
  warn_where_unwritten("the best checkpoint was not written; an earlier one, if any, is kept", [&] {
    write_checkpoint(request_.folder / kBestFolder, *learner_, best);
    state_.best_metric = metric;
    state_.best_step = state_.step;
  });
}

// The contents of best/ take precedence over what the checkpoint records: the run may resume from
// an older checkpoint, or from another folder, and a write may have failed.
void Trainer::take_best_from_folder() {
  state_.best_metric = std::numeric_limits<double>::infinity();
  state_.best_step = 0;
  const fs::path folder = request_.folder / kBestFolder;
  if (!is_checkpoint(folder)) return;
  warn_where_unwritten("the best checkpoint is written again at the next evaluation", [&] {
    check_checkpoint(folder, CheckpointPart::kNetwork);
    const RunState best = read_checkpoint(folder).state;
    const bool is_comparable = best.dev_fingerprint == 0 || state_.dev_fingerprint == 0 ||
                               best.dev_fingerprint == state_.dev_fingerprint;
    if (!is_comparable) return set_best_aside();
    state_.best_metric = best.best_metric;
    state_.best_step = best.best_step;
  });
}

// The best checkpoint was selected on evaluation data that has changed.
void Trainer::set_best_aside() {
  const fs::path folder = request_.folder / kBestFolder;
  const fs::path aside = set_aside(folder, request_.resume_from);
  notify(events_.warned, fmt::format("the evaluation data has changed: the best checkpoint so far "
                                     "was renamed to {}",
                                     aside.string()));
}

Checkpoint Trainer::current_checkpoint() const {
  return {.state = state_,
          .config = request_.config,
          .tokenizer = data_->tokenizer(),
          .model_config = model_config_};
}

void Trainer::save_now() {
  write_current();
  warn_where_unwritten("no older checkpoint was removed", [&] {
    remove_other_checkpoints(request_.folder, {.num_newest = request_.config.keep_checkpoints,
                                               .num_best = num_best(request_.config),
                                               .keeps_best_of_stages = stages_.size() > 1});
  });
}

// Returns whether the checkpoint of the evaluation after this step is kept; true where the folder
// cannot be listed.
bool Trainer::is_among_best() const {
  try {
    if (stages_.size() > 1 && is_best_of_stage(request_.folder, state_)) return true;
    return is_among_best_checkpoints(request_.folder, num_best(request_.config), state_);
  } catch (const DataError&) {
    return true;
  }
}

void Trainer::write_current() {
  const fs::path path = checkpoint_path(request_.folder, state_.step);
  metrics_->sync();
  write_checkpoint(path, *learner_, current_checkpoint());
  last_save_s_ = now_s();
  last_saved_step_ = state_.step;
  notify(events_.saved, path);
}

// Saves the steps trained by this process, however the run ended, unless an update was interrupted.
// Older checkpoints are kept, because this one may be affected by the failure. Errors here do not
// hide the original one.
void Trainer::save_after_failure() {
  const bool has_trained = state_.step >= plan_.first_step && state_.step != last_saved_step_;
  if (!has_trained || !learner_->is_whole) return;
  try {
    write_current();
  } catch (const std::exception& error) {
    notify(
        events_.warned,
        fmt::format("no checkpoint was written; earlier ones, if any, are kept: {}", error.what()));
  }
}

// A file that cannot be written does not end a run in progress: space or permission may be
// available next time. `what`: the consequence, for the user.
void Trainer::warn_where_unwritten(const char* what, const std::function<void()>& write) {
  try {
    write();
  } catch (const DataError& error) {
    notify(events_.warned, fmt::format("{}: {}", what, error.what()));
  }
}

void Trainer::save_or_warn() {
  last_save_s_ = now_s();
  warn_where_unwritten("no checkpoint was written; earlier ones, if any, are kept",
                       [&] { save_now(); });
}

void Trainer::keep_limits() {
  warn_where_unwritten("limits.json was not written", [&] {
    write_learned_limits(request_.folder, state_.limits, limits_basis());
  });
}

void Trainer::learn_limits(const Restart& restart) {
  if (!(restart.limits == state_.limits)) {
    state_.limits = restart.limits;
    keep_limits();
  }
  metrics_->add(restart_record(restart));
  notify(events_.restarted, restart);
}

}  // namespace sotto::train
