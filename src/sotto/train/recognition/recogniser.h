// Inference with a trained network: used by `sotto eval`, `transcribe` and `logits`. Loads the
// weights of a checkpoint or Hugging Face folder and processes one micro-batch at a time, within a
// budget.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sotto/data/batch/example_list.h"
#include "sotto/decode/decoding.h"
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
  // Longer files are recognised in windows of window_s seconds that overlap by overlap_s; each side
  // of an overlap contributes half of it. A window must exceed the overlap by at least the shortest
  // audio that the network accepts.
  double window_s = 30.0;
  double overlap_s = 6.0;
};

class Recogniser {
 public:
  // `model`: a checkpoint, a run (its best checkpoint, else its latest), a folder written by `sotto
  // export` or transformers, or the id of one in the local cache. Throws DataError where it does
  // not exist or cannot be read.
  Recogniser(const std::filesystem::path& model, int64_t budget_bytes,
             const device::RunDevice& device = {});

  // For a Hugging Face folder: its network, shape and tokenizer, with a run's defaults. The data
  // options are those of evaluations.
  const Checkpoint& checkpoint() const { return checkpoint_; }
  const std::filesystem::path& folder() const { return folder_; }
  const models::Outline& outline() const { return model_->outline(); }

  // Sets which utterances evaluations use, how they treat invalid ones (broken, too long and so
  // on), and how they normalise texts. By default they use all utterances and follow the run's
  // options.
  void set_data_options(const DataOptions& options) {
    checkpoint_.config.data = options;
    checkpoint_.tokenizer.set_rules(options.text);
  }

  // Sets the search for transcripts; by default it is that of the run. `progress` receives the
  // number of bytes of the language model that were read. Throws ConfigError for a setting that has
  // no effect on the network, DataError where the language model cannot be read.
  void set_decode_options(const decode::DecodeOptions& options,
                          const std::function<void(int64_t)>& progress = {});

  // Evaluates on a manifest, or on a text for a language model. `progress` receives the number of
  // completed items and the total. Throws Infeasible where the longest item does not fit into the
  // budget.
  Evaluation evaluate(const std::filesystem::path& path,
                      const std::function<void(int64_t, int64_t)>& progress = {});

  // Transcribes an audio file. Throws ConfigError where the windows are too short, DataError where
  // the file cannot be read or its decoded audio exceeds the budget.
  decode::Transcript transcribe(const std::filesystem::path& file,
                                const TranscribeOptions& options = {});

  // Host memory for audio, logits and beam search prefixes. On a CPU this is the budget.
  int64_t host_bytes() const;

  // Returns the logits of all frames of an audio file, computed in one pass, [T, V] fp32 on the
  // host.
  at::Tensor logits(const std::filesystem::path& file);

  // Peak memory so far, in bytes.
  int64_t peak_bytes() const { return arena_->report().peak; }

 private:
  void check_has_audio_input() const;
  void check_windows(const TranscribeOptions& options) const;
  std::vector<float> read_samples(const std::filesystem::path& file) const;
  // Reads the language model where there is one, and makes dry runs include the search.
  const decode::DecodingOptions& prepare_decoding(bool has_times);
  // Recognises the examples, and calls body(indices, recognition) for each micro-batch of them.
  using MicroBatchBody = std::function<void(std::span<const int64_t>, const models::Recognition&)>;
  void recognise_all(const data::ExampleList& list, const MicroBatchBody& body);
  // Returns the logits of all frames of a recording, [T, V] row-major.
  std::vector<float> logits_of(const std::vector<float>& samples, const TranscribeOptions& options);
  // Returns the labels of a recording by the search over tokens, and sets the number of frames.
  decode::Labels tokens_of(const std::vector<float>& samples, const TranscribeOptions& options,
                           int64_t& num_frames);

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
  std::unique_ptr<decode::Decoding> decoding_;
};

}  // namespace sotto::train
