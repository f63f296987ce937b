// Runs training from the beginning, or from a checkpoint, to the end: load a step, run it,
// evaluate, save.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "sotto/core/files/folder_lock.h"
#include "sotto/data/batch/loader.h"
#include "sotto/data/batch/sampler.h"
#include "sotto/data/batch/source.h"
#include "sotto/decode/decoding.h"
#include "sotto/device/arena.h"
#include "sotto/device/run_device.h"
#include "sotto/device/torch_memory.h"
#include "sotto/train/checkpoint/checkpoint.h"
#include "sotto/train/recognition/evaluation.h"
#include "sotto/train/recognition/evaluation_recovery.h"
#include "sotto/train/run/caches.h"
#include "sotto/train/run/memory_comparison.h"
#include "sotto/train/run/metrics.h"
#include "sotto/train/run/monitor.h"
#include "sotto/train/run/padding.h"
#include "sotto/train/step/dry_run.h"
#include "sotto/train/step/epoch_audit.h"
#include "sotto/train/step/fit.h"
#include "sotto/train/step/recovery.h"
#include "sotto/train/step/run_data.h"
#include "sotto/train/step/run_limits.h"
#include "sotto/train/step/stages.h"
#include "sotto/train/step/step.h"

namespace sotto::train {

// Facts known before the first step.
struct RunPlan {
  // Device memory that the run may use, and the part of it used by libraries; the rest is the
  // arena.
  int64_t budget_bytes = 0;
  int64_t constant_bytes = 0;
  std::string device_name;
  Numerics numerics = Numerics::kFp32;
  Fit fit;
  int64_t num_parameters = 0;
  // Number and duration of utterances; for text, number of rows and tokens.
  int64_t num_utterances = 0;
  double audio_seconds = 0.0;
  int64_t num_tokens = 0;
  int64_t steps_per_epoch = 0;
  int64_t total_steps = 0;
  // First step of this process; above 1 after --resume.
  int64_t first_step = 1;
  int64_t num_skipped = 0;
  // For speech.
  Padding padding = {};
  // The stages of the run, and the index of the first of this process; empty where it has none.
  std::vector<Stage> stages = {};
  int64_t first_stage = 0;
};

// The beginning of a stage.
struct StageStart {
  int64_t stage = 0;  // from 0
  int64_t num_stages = 0;
  std::string name = {};
  int64_t num_samples = 0;
  int64_t num_steps = 0;
  // Its first step, and the last one of the run.
  int64_t first_step = 1;
  int64_t total_steps = 0;
  // The step whose weights and moments it starts with; 0: those of the beginning of the run.
  int64_t weights_of_step = 0;
  // Metric of the evaluation after that step, if there was one.
  std::optional<double> metric = {};
};

struct StepReport {
  int64_t step = 0;  // from 1
  int64_t total_steps = 0;
  int64_t epoch = 0;
  // The next step belongs to another epoch.
  bool ends_epoch = false;
  StepResult result = {};
  int64_t num_utterances = 0;
  // 0 for text, whose frames are tokens.
  double audio_seconds = 0.0;
  double seconds = 0.0;
  // Arena bytes: alive after the step, the peak within it, and the extent that it reached.
  int64_t live_bytes = 0;
  int64_t peak_bytes = 0;
  int64_t reserved_bytes = 0;

  // All utterances were skipped: there is no loss.
  bool is_empty() const { return num_utterances == 0; }
};

// Callbacks of a run; each may be absent.
struct RunEvents {
  // Called while large data is indexed or encoded, before the plan.
  PreparingProgress preparing = {};
  std::function<void(const RunPlan&)> planned = {};
  // Called before the first step of an epoch; epochs count from 0.
  std::function<void(int64_t epoch, const EpochAudit&)> audited = {};
  // Called before the first step of a stage, in runs with stages.
  std::function<void(const StageStart&)> staged = {};
  std::function<void(const MemoryComparison&)> compared = {};
  std::function<void(const StepReport&)> stepped = {};
  std::function<void(const Restart&)> restarted = {};
  std::function<void(int64_t step, const Evaluation&)> evaluated = {};
  std::function<void(const std::filesystem::path&)> saved = {};
  std::function<void(int64_t step, const ReleasedCaches&)> released = {};
  // Called with every line of metrics.jsonl.
  std::function<void(const nlohmann::json&)> recorded = {};
  // Warnings and notes for the user, one line each.
  std::function<void(const std::string&)> warned = {};
  std::function<void(const std::string&)> noted = {};
  // Called after every step: true saves and ends the run.
  std::function<bool()> should_stop = {};
};

// Calls an event where it is set.
template <class Event, class... Arguments>
void notify(const Event& event, const Arguments&... arguments) {
  if (event) event(arguments...);
}

struct RunRequest {
  RunConfig config;
  // runs/NAME
  std::filesystem::path folder;
  int64_t budget_bytes = 0;
  device::RunDevice device = {};
  // Lock of the folder; empty: the trainer takes it. Shared, because requests are copied.
  std::shared_ptr<const FolderLock> lock = {};
  // Checkpoint to resume from: the result of choose_checkpoint().
  std::optional<std::filesystem::path> resume_from = {};
  // config.init_from is the model itself, which must match entirely except for its head.
  bool inits_whole_model = false;
  // Decides automatic settings once the data is known; empty: there are none.
  std::function<RunConfig(const RunConfig&, RunData&)> decide = {};
  // Reads the device's memory use; empty: queries the machine.
  device::MemoryReading read_device = {};
  // Memory runs out once in this step, to show the recovery; 0: in none.
  int64_t failing_step = 0;
};

struct RunSummary {
  int64_t steps = 0;
  // Number of steps trained by this call.
  int64_t num_steps = 0;
  double loss = 0.0;
  std::optional<Evaluation> last_evaluation;
  // Best evaluation metric, and its step.
  double best_metric = 0.0;
  int64_t best_step = 0;
  int64_t peak_bytes = 0;
  int64_t num_restarts = 0;
  double audio_seconds = 0.0;
  int64_t num_tokens = 0;
  double seconds = 0.0;
  bool was_stopped = false;
  // Ended by `early_stopping`.
  bool ended_early = false;
};

class Trainer {
 public:
  // Reads data and checkpoint, fits limits to the budget, allocates. Throws ConfigError and
  // DataError before anything is trained.
  Trainer(RunRequest request, RunEvents events);

  const RunPlan& plan() const { return plan_; }
  // The configuration including automatic decisions.
  const RunConfig& config() const { return request_.config; }
  // Accessors for tests.
  Learner& learner() { return *learner_; }
  device::Arena& arena() { return *arena_; }

  // Trains to the end, or until should_stop; a further call continues from there. If training ends
  // between two updates (a step that ran out of memory after all retries, an unreadable file, a
  // failing evaluation), completed steps are saved first.
  RunSummary run();

 private:
  void open_device(const models::DataShape& shape);
  void load_first_weights(const std::optional<Checkpoint>& checkpoint);
  void make_sources();
  void identify_data(const std::optional<Checkpoint>& checkpoint);
  void set_length(const std::optional<Checkpoint>& checkpoint);
  void set_length_of_only_stage(const std::optional<Checkpoint>& checkpoint);
  void fit_to_budget(const std::optional<EarlierLimits>& earlier);
  LimitsBasis limits_basis() const;
  std::optional<EarlierLimits> earlier_limits(const std::optional<Checkpoint>& checkpoint) const;
  void begin_epoch(int64_t epoch);
  void open_folder();
  void train_to_end();
  void train_stage();
  void enter_stage();
  void begin_next_stage();
  StageStart carry_best_on();
  bool take_weights_of(const std::filesystem::path& folder);
  void report_stage(StageStart start);
  void audit_last_stage();
  const Stage& stage() const { return stages_[static_cast<size_t>(state_.stage)]; }
  bool has_next_stage() const { return state_.stage + 1 < std::ssize(stages_); }
  int64_t end_of_stage() const { return state_.stage_begin + stage().num_steps; }
  bool is_stage_over() const { return state_.step >= end_of_stage() || ends_early(); }
  StepReport train_one(const data::LoadedStep& loaded);
  void report_skipped(const data::SkippedUtterance& skipped);
  void check_failing_step() const;
  StepResult run_with_retries(std::span<const data::Example> examples, StepSettings& settings);
  void commit_step(const data::LoadedStep& loaded, const StepSettings& settings,
                   const StepResult& result);
  void compare_first_step(std::span<const data::Example> examples, const StepSettings& settings,
                          const device::MemoryReport& measured);
  // `loss_scale`: the scale used in the step.
  void finish_step(const StepReport& report, double loss_scale);
  void watch(const StepReport& report);
  using Afterwards = data::AudioCache::Afterwards;
  void give_back_caches(data::AudioCache* audio, Afterwards afterwards);
  void evaluate_now();
  void keep_as_best(double metric);
  void take_best_from_folder();
  void set_best_aside();
  bool is_among_best() const;
  void save_now();
  void save_or_warn();
  void write_current();
  void save_after_failure();
  void warn_where_unwritten(const char* what, const std::function<void()>& write);
  void warn_of_folder();
  void keep_limits();
  void learn_limits(const Restart& restart);
  Checkpoint current_checkpoint() const;
  StepSettings settings_for(int64_t step) const;
  data::StepPosition following(const data::StepPosition& position) const;
  // True at the end of a stage, every `every` updates, or, for 0, at the end of an epoch.
  bool is_due(int64_t every) const;
  static double now_s();
  bool ends_early() const { return state_.early_stopping.is_over(request_.config.early_stopping); }

  RunRequest request_;
  RunEvents events_;
  std::unique_ptr<RunData> data_;
  std::shared_ptr<data::Source> train_;
  std::unique_ptr<data::Source> dev_;           // absent without data.dev
  std::unique_ptr<decode::Decoding> decoding_;  // absent without data.dev
  std::optional<decode::TextNormalizer> normalizer_;
  std::vector<Stage> stages_;               // at least one
  std::unique_ptr<data::Sampler> sampler_;  // of the stage
  std::unique_ptr<DryRun> dry_;
  RunPlan plan_;
  RunState state_;
  std::string model_config_;  // Checkpoint::model_config
  RunSummary summary_;
  LargestItem largest_item_;
  // The limits differ from the run's earlier ones: limits learned before no longer apply.
  bool has_new_limits_ = false;
  MicroBatchLimits evaluation_limits_;
  StepBudget budget_;  // of the arena and of the host
  LossScale loss_scale_;
  // The arena is shared, because tensors that outlive this object hold blocks of it. While the
  // guard exists, all tensors of the device are allocated in it.
  std::shared_ptr<device::Arena> arena_;
  std::unique_ptr<device::ArenaGuard> guard_;
  std::unique_ptr<Learner> learner_;
  std::optional<Metrics> metrics_;
  std::optional<Monitor> monitor_;
  int64_t epoch_ = -1;
  data::EpochOrder epoch_order_;
  std::set<int64_t> infeasible_;
  double last_save_s_ = 0.0;
  int64_t last_saved_step_ = -1;
};

}  // namespace sotto::train
