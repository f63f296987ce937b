// The training and evaluation data of a run as configured: the utterances of manifests, or the rows
// of texts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "sotto/data/audio/audio_cache.h"
#include "sotto/data/batch/source.h"
#include "sotto/data/text/tokenizer.h"
#include "sotto/models/model.h"
#include "sotto/train/step/run_config.h"

namespace sotto::train {

// Returns the memory limit for audio decoded ahead.
int64_t loader_bytes(const DataOptions& options);

// Called with the current activity, the bytes processed and the total.
using PreparingProgress = std::function<void(std::string_view, int64_t, int64_t)>;

class RunData {
 public:
  virtual ~RunData() = default;

  const data::Tokenizer& tokenizer() const { return *tokenizer_; }
  // Properties of the data that determine the network's shapes.
  virtual models::DataShape shape() const = 0;

  // Adopts settings decided after opening: how items are loaded, not which ones.
  void follow(const RunConfig& decided) { config_ = decided; }

  // Fingerprint of the training data, which must not change within a run.
  virtual uint64_t fingerprint() const = 0;

  // Returns the duration in seconds of the longest utterance of a source that alone fits into the
  // budget.
  using LongestFitting = std::function<double(const data::Source&)>;
  // Throws DataError where a policy requires it.
  virtual std::shared_ptr<data::Source> make_train(const LongestFitting& longest_fitting) = 0;
  // Returns nullptr where no evaluation data is configured.
  virtual std::unique_ptr<data::Source> make_dev() const = 0;

  // Cache of decoded training audio; nullptr where there is none.
  virtual data::AudioCache* audio_cache() const { return nullptr; }

 protected:
  explicit RunData(RunConfig config) : config_(std::move(config)) {}

  RunConfig config_;
  std::optional<data::Tokenizer> tokenizer_;
};

// Opens data.train; `of_checkpoint`: the tokenizer of a resumed run. Throws ConfigError and
// DataError.
std::unique_ptr<RunData> open_run_data(const RunConfig& config,
                                       std::optional<data::Tokenizer> of_checkpoint,
                                       const PreparingProgress& progress);

// Returns the prompts of a network that has them, else null. Throws ConfigError for another
// tokenizer, and for a language that it does not know.
std::shared_ptr<const data::WhisperPrompts> prompts_of(const RunConfig& config,
                                                       const data::Tokenizer& tokenizer);

// Returns the run's data options for an evaluation on other data: without those that selected the
// training data (duration bounds and number of utterances). An evaluation uses all data unless its
// own settings say otherwise.
DataOptions evaluation_options(DataOptions of_run);

// Opens data for evaluating a network, with the options of config.data. Throws DataError where it
// is not of the kind that the network was trained on.
std::unique_ptr<data::Source> open_for_evaluation(const RunConfig& config,
                                                  const models::DataShape& shape,
                                                  const data::Tokenizer& tokenizer,
                                                  const std::filesystem::path& path);

}  // namespace sotto::train
