// A trained network at work: what `sotto eval`, `transcribe` and `logits` use. It takes the weights
// of a checkpoint or of a Hugging Face folder and the activations of one micro-batch, inside a
// budget.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sotto/decode/transcript.h"
#include "sotto/device/arena.h"
#include "sotto/device/run_device.h"
#include "sotto/device/torch_memory.h"
#include "sotto/train/checkpoint/checkpoint.h"
#include "sotto/train/recognition/evaluation.h"
#include "sotto/train/step/dry_run.h"
#include "sotto/train/step/step_budget.h"

namespace sotto::train {

struct TranscribeOptions {
  // Longer files are recognised in windows of this many seconds, each of which has this many of the
  // one before it: half of that is taken from either side. A window must be longer than the overlap
  // by the shortest audio that the network takes.
  double window_s = 30.0;
  double overlap_s = 6.0;
  // How transcripts are found; null: the likeliest label of each frame.
  const decode::BeamSearch* beam = nullptr;
};

class Recogniser {
 public:
  // `model`: a checkpoint, a run (of which the best is taken, else the newest), a folder that
  // `sotto export` or transformers wrote, or the id of one in the local cache. Throws DataError
  // where there is none, or it cannot be read.
  Recogniser(const std::filesystem::path& model, int64_t budget_bytes,
             const device::RunDevice& device = {});

  // For a Hugging Face folder: its network, shape and tokenizer, and a run's defaults. Its settings
  // of the data are those of evaluations.
  const Checkpoint& checkpoint() const { return checkpoint_; }
  const std::filesystem::path& folder() const { return folder_; }

  // Sets which utterances evaluations take, and what they do with those that are broken, too long
  // and so on, and with their texts. Without it they take all, and treat them as the run did.
  void set_data_options(const DataOptions& options) {
    checkpoint_.config.data = options;
    checkpoint_.tokenizer.set_rules(options.text);
  }

  // On a manifest, or a text for a language model. `progress` hears how many items are done of how
  // many. Throws Infeasible where the longest does not fit into the budget.
  Evaluation evaluate(const std::filesystem::path& path, const decode::BeamSearch* beam = nullptr,
                      const std::function<void(int64_t, int64_t)>& progress = {});

  // What is said in an audio file. Throws ConfigError where the windows are too short, DataError
  // where the file cannot be read, or decoded takes more memory than the budget.
  decode::Transcript transcribe(const std::filesystem::path& file,
                                const TranscribeOptions& options = {});

  // Memory of the host for what lies there: audio, logits and prefixes of a beam search. On a CPU
  // that is the budget.
  int64_t host_bytes() const;

  // The logits of all frames of an audio file at once, [T, V] fp32 on the host.
  at::Tensor logits(const std::filesystem::path& file);

  // Most bytes that were taken so far.
  int64_t peak_bytes() const { return arena_->report().peak; }

 private:
  void check_has_audio_input() const;
  void check_windows(const TranscribeOptions& options) const;
  std::vector<float> read_samples(const std::filesystem::path& file) const;
  // Of all frames of a recording [T, V], row after row.
  std::vector<float> logits_of(const std::vector<float>& samples, const TranscribeOptions& options);

  std::filesystem::path folder_;
  Checkpoint checkpoint_;
  device::RunDevice device_;
  int64_t budget_bytes_;
  StepBudget budget_;
  device::HostMemory host_;
  device::StagingBuffer staging_;
  DryRun dry_;
  // Shared, because tensors that outlive this object hold blocks of it.
  std::shared_ptr<device::Arena> arena_;
  device::ArenaGuard guard_;
  std::unique_ptr<models::Model> model_;
};

}  // namespace sotto::train
