// What a run learns from and is evaluated on, as its configuration names it: the utterances of
// manifests, or the rows of texts.
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

// What audio decoded ahead may take.
int64_t loader_bytes(const DataOptions& options);

// What is being done, and bytes done of all.
using PreparingProgress = std::function<void(std::string_view, int64_t, int64_t)>;

class RunData {
 public:
  virtual ~RunData() = default;

  const data::Tokenizer& tokenizer() const { return *tokenizer_; }
  // What of the data decides the network's shapes.
  virtual models::DataShape shape() const = 0;

  // Takes over what was decided after it was opened: how its items are loaded, not which they are.
  void follow(const RunConfig& decided) { config_ = decided; }

  // Of what the run learns from: another one would not be the same run.
  virtual uint64_t fingerprint() const = 0;

  // The seconds of the longest utterance of a source that fits into the budget alone.
  using LongestFitting = std::function<double(const data::Source&)>;
  // Throws DataError where a policy says so.
  virtual std::shared_ptr<data::Source> make_train(const LongestFitting& longest_fitting) = 0;
  // nullptr where nothing is named.
  virtual std::unique_ptr<data::Source> make_dev() const = 0;

  // Of what the run learns from, decoded; nullptr where none is kept.
  virtual data::AudioCache* audio_cache() const { return nullptr; }

 protected:
  explicit RunData(RunConfig config) : config_(std::move(config)) {}

  RunConfig config_;
  std::optional<data::Tokenizer> tokenizer_;
};

// Opens data.train; of_checkpoint: the tokenizer of a run that goes on. Throws ConfigError and
// DataError.
std::unique_ptr<RunData> open_run_data(const RunConfig& config,
                                       std::optional<data::Tokenizer> of_checkpoint,
                                       const PreparingProgress& progress);

// The run's settings of the data for an evaluation of something else: without those that chose what
// was trained on (the bounds of an utterance and the number of utterances). An evaluation is of all
// there is unless its own settings say otherwise.
DataOptions evaluation_options(DataOptions of_run);

// Something to evaluate a network on, as config.data says. Throws DataError where it is not what
// the network was trained on.
std::unique_ptr<data::Source> open_for_evaluation(const RunConfig& config,
                                                  const models::DataShape& shape,
                                                  const data::Tokenizer& tokenizer,
                                                  const std::filesystem::path& path);

}  // namespace sotto::train
