// The utterances of a manifest that take part in training, and how each is loaded. A policy decides
// about invalid utterances: `error` stops and explains what to do, `skip` omits the utterance and
// lists it with its reason, `chunk` cuts one that is too long at its segments.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "sotto/core/config/options.h"
#include "sotto/data/audio/audio_cache.h"
#include "sotto/data/audio/tar_shards.h"
#include "sotto/data/batch/augmentation.h"
#include "sotto/data/batch/source.h"
#include "sotto/data/manifest/manifest.h"
#include "sotto/data/manifest/segments.h"
#include "sotto/data/text/tokenizer.h"
#include "sotto/data/text/whisper_prompts.h"

namespace sotto::data {

enum class Policy { kError, kSkip, kKeep, kChunk };

inline constexpr std::array kPolicies = {Named<Policy>{"error", Policy::kError},
                                         Named<Policy>{"skip", Policy::kSkip}};
inline constexpr std::array kTooLongPolicies = {Named<Policy>{"error", Policy::kError},
                                                Named<Policy>{"skip", Policy::kSkip},
                                                Named<Policy>{"chunk", Policy::kChunk}};
inline constexpr std::array kEmptyTextPolicies = {Named<Policy>{"keep", Policy::kKeep},
                                                  Named<Policy>{"skip", Policy::kSkip},
                                                  Named<Policy>{"error", Policy::kError}};

struct DatasetOptions {
  // Limits of an utterance's duration in the manifest; a max of 0: none.
  double min_seconds = 0.0;
  double max_seconds = 0.0;
  // Maximum number of utterances that take part, from the first on; 0: all.
  int64_t max_samples = 0;
  // Sample rate of the audio after resampling, in Hz, the minimum and maximum number of samples or
  // frames that the model accepts (0: any), and the labels before a text (null: none). They follow
  // from the model and are not settings.
  int64_t sample_rate = 16'000;
  int64_t min_rows = 1;
  int64_t max_rows = 0;
  std::shared_ptr<const WhisperPrompts> prompts = {};
  // Policy for an utterance outside the limits: setting limits implies that others are skipped.
  Policy too_short = Policy::kSkip;
  Policy too_long = Policy::kSkip;
  // Policy for a line that is not an utterance; a file that is missing, truncated, not audio or
  // whose duration differs from the manifest.
  Policy broken = Policy::kError;
  // Policy for a transcript with characters that the tokenizer lacks.
  Policy unknown_text = Policy::kError;
  // Policy for a transcript that is empty after its rules are applied; CTC learns silence from it.
  Policy empty_text = Policy::kKeep;

  void visit(OptionVisitor& visitor);
  void validate() const;  // throws ConfigError
};

// Processing of audio in addition to decoding.
struct AudioTreatment {
  std::shared_ptr<const Augmentation> augmentation = {};
  // Shared by the copies of a dataset.
  std::shared_ptr<AudioCache> cache = {};
};

class Dataset : public Source {
 public:
  // Checks durations and transcripts; files are opened by load(). Throws DataError where a policy
  // requires it, with the first such utterance and their number, and where no utterance remains;
  // ConfigError for a treatment of audio if there is none.
  Dataset(Manifest manifest, Tokenizer tokenizer, const DatasetOptions& options,
          AudioTreatment treatment = {});

  const Manifest& manifest() const { return manifest_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  const DatasetOptions& options() const { return options_; }

  // Indices in the manifest of the utterances that take part as a whole, in order: 4 bytes each, as
  // there may be millions. Items are these, followed by the pieces of those that are cut.
  const std::vector<uint32_t>& utterances() const { return utterances_; }
  // Returns the labels of an utterance that takes part, by its index in the manifest.
  std::vector<int32_t> labels_of(int64_t utterance) const;

  std::string name() const override { return manifest_.path().string(); }
  std::string where(int64_t utterance) const override;
  uint64_t fingerprint() const override { return manifest_.fingerprint(); }
  int64_t num_items() const override { return std::ssize(utterances_) + std::ssize(pieces_); }
  int64_t utterance_at(int64_t index) const override;
  int64_t num_skipped() const override { return num_skipped_; }
  std::span<const SkippedUtterance> skipped() const override { return skipped_; }
  std::vector<float> lengths() const override;
  // Returns the maximum length that a file may have for the manifest's duration, at the slowest
  // tempo.
  ExampleSize size_of(int64_t index) const override;
  int64_t bytes_per_row() const override;
  Example dry_example(const ExampleSize& size) const override {
    return make_dry_example(size.rows, manifest_.feature_dim(), size.labels);
  }
  void check_files() const override;
  std::vector<FileHash> hash_files(int64_t max_files) const override;
  // Also applies the policy to an item that is too short after decoding: throws or skips it.
  std::variant<Example, SkippedUtterance> load(int64_t index, int64_t epoch) const override;

 private:
  // A fault found in an utterance's line of the manifest, and the setting that decides about it.
  struct Fault {
    std::string found;
    std::string expected;
    Policy policy = Policy::kError;
    const char* setting = "";
  };

  // A piece of an utterance that is cut.
  struct Piece {
    uint32_t utterance = 0;
    // Index of the piece, from 0.
    uint32_t number = 0;
    SegmentRun run;
    float seconds = 0.0f;
    uint32_t num_frames = 0;  // of stored features
    uint32_t num_labels = 0;
  };

  // An item by its index: a line of the manifest, or a piece of it.
  struct Item {
    int64_t utterance = 0;
    int64_t piece = 0;
    Utterance line;
  };

  // Number of skipped utterances whose reasons are kept.
  static constexpr int64_t kMostReasons = 1000;

  void take_bad_lines();
  void look_at_texts();
  void count_labels();
  void select_utterances();
  // Decided by the index alone.
  bool may_be_faulty(int64_t utterance) const;
  std::vector<Fault> faults_of(const Utterance& utterance) const;
  // Returns the maximum duration by max_seconds and by the model; 0: none.
  double most_seconds() const;
  // Describes that limit: "at most 30 s, the model's window".
  std::string most_text() const;
  bool is_too_long(const Utterance& utterance) const {
    const double most = most_seconds();
    return most > 0.0 && utterance.duration_s > most;
  }
  // Returns the faults in the text of an utterance, or of a piece of it: " in the piece from 2 s".
  std::vector<Fault> faults_of_text(const Tokenizer::Encoded& encoded,
                                    const std::string& piece) const;
  // Returns what is wrong with the language of an utterance, or with the number of its labels.
  std::optional<Fault> fault_of_labels(const std::string& lang, const std::vector<int32_t>& labels,
                                       const std::string& piece) const;
  // Returns the labels of a text, after those of the prompt.
  std::vector<int32_t> with_prompt(const std::string& lang, std::vector<int32_t> labels) const;
  int64_t num_prompt() const {
    return options_.prompts == nullptr ? 0 : options_.prompts->num_prompt();
  }
  static std::string reason_of(const Utterance& utterance, const Fault& fault);
  std::optional<Fault> fault_of_length(const Utterance& utterance) const;
  std::optional<Fault> fault_of_rows(const Utterance& utterance) const;
  void add_pieces(const Utterance& utterance, int64_t row);
  Item item_at(int64_t index) const;
  int64_t num_samples(double seconds) const;
  int64_t most_samples(double seconds) const;
  int64_t most_rows(int64_t samples) const;
  void skip(int64_t utterance, const std::string& reason);
  Fault too_few_rows(int64_t rows) const;
  Fault too_many_rows(int64_t rows) const;
  DataError error_of(const Utterance& utterance, const Fault& fault, const std::string& more) const;
  // Adds the line of the manifest to the error of a broken file.
  DataError error_of(const Utterance& utterance, const DataError& error) const;
  void check_file(const Utterance& line) const;
  [[noreturn]] void require_not_empty() const;
  Example read(const Item& item, int64_t index, int64_t epoch) const;
  std::vector<float> read_samples(const Utterance& line, int64_t index) const;

  Manifest manifest_;
  Tokenizer tokenizer_;
  DatasetOptions options_;
  AudioTreatment treatment_;
  // Archives that contain recordings. Shared by the copies of a dataset.
  std::shared_ptr<TarShards> shards_;
  std::vector<uint32_t> utterances_;
  std::vector<Piece> pieces_;
  // For each utterance of the manifest, if texts had to be examined; empty if the index is
  // sufficient: no character is unknown, and each is a label.
  std::vector<uint8_t> has_text_fault_;
  std::vector<uint32_t> num_labels_;
  int64_t num_skipped_ = 0;
  std::vector<SkippedUtterance> skipped_;
};

}  // namespace sotto::data
