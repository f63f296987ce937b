// The utterances of a manifest that take part in training, and how each is loaded. What is wrong
// with an utterance is met by a policy: `error` stops and says what to do, `skip` leaves it out and
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
  // Bounds of an utterance, by the manifest's duration; a max of 0: none.
  double min_seconds = 0.0;
  double max_seconds = 0.0;
  // The first so many that take part; 0: all.
  int64_t max_samples = 0;
  // What audio is brought to, in Hz, and the fewest samples or frames that the model can take: they
  // follow from the model and are no settings of their own.
  int64_t sample_rate = 16'000;
  int64_t min_rows = 1;
  // An utterance outside the bounds. Who sets them wants the others left out.
  Policy too_short = Policy::kSkip;
  Policy too_long = Policy::kSkip;
  // A line that is no utterance; a file that is missing, cut short, no audio or not as long as the
  // manifest says.
  Policy broken = Policy::kError;
  // A transcript with characters that the tokenizer lacks.
  Policy unknown_text = Policy::kError;
  // A transcript without characters, once its rules are applied; CTC learns silence from it.
  Policy empty_text = Policy::kKeep;

  void visit(OptionVisitor& visitor);
  void validate() const;  // throws ConfigError
};

// What a dataset may do with audio besides decoding it.
struct AudioTreatment {
  std::shared_ptr<const Augmentation> augmentation = {};
  // Shared by the copies of a dataset.
  std::shared_ptr<AudioCache> cache = {};
};

class Dataset : public Source {
 public:
  // Looks at durations and transcripts; files are opened by load(). Throws DataError where a policy
  // says so, with the first such utterance and how many there are, and where no utterance is left;
  // ConfigError for a treatment of audio where there is none.
  Dataset(Manifest manifest, Tokenizer tokenizer, const DatasetOptions& options,
          AudioTreatment treatment = {});

  const Manifest& manifest() const { return manifest_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  const DatasetOptions& options() const { return options_; }

  // Places in the manifest of those that take part whole, in order: 4 bytes each, as there may be
  // millions. Items are these, and behind them the pieces of those that are cut.
  const std::vector<uint32_t>& utterances() const { return utterances_; }
  // The labels of an utterance that takes part, by its place in the manifest.
  std::vector<int32_t> labels_of(int64_t utterance) const;

  std::string name() const override { return manifest_.path().string(); }
  std::string where(int64_t utterance) const override;
  uint64_t fingerprint() const override { return manifest_.fingerprint(); }
  int64_t num_items() const override { return std::ssize(utterances_) + std::ssize(pieces_); }
  int64_t utterance_at(int64_t place) const override;
  int64_t num_skipped() const override { return num_skipped_; }
  std::span<const SkippedUtterance> skipped() const override { return skipped_; }
  std::vector<float> lengths() const override;
  // As long as a file may be for the manifest's duration, and at the slowest tempo.
  ExampleSize size_of(int64_t place) const override;
  int64_t bytes_a_row() const override;
  Example dry_example(const ExampleSize& size) const override {
    return make_dry_example(size.rows, manifest_.feature_dim(), size.labels);
  }
  void check_files() const override;
  std::vector<FileHash> hash_files(int64_t max_files) const override;
  // Thrown or skipped, as the policy says, is also what is too short once decoded.
  std::variant<Example, SkippedUtterance> load(int64_t place, int64_t epoch) const override;

 private:
  // What is wrong with an utterance by its line in the manifest, and which setting decides.
  struct Fault {
    std::string found;
    std::string expected;
    Policy policy = Policy::kError;
    const char* setting = "";
  };

  // Of an utterance that is cut.
  struct Piece {
    uint32_t utterance = 0;
    // From 0.
    uint32_t number = 0;
    SegmentRun run;
    float seconds = 0.0f;
    uint32_t num_frames = 0;  // of stored features
    uint32_t num_labels = 0;
  };

  // An item by its place: the line that it is of, or what is cut out of it.
  struct Item {
    int64_t utterance = 0;
    int64_t piece = 0;
    Utterance line;
  };

  // Of skipped utterances the reasons are kept for so many.
  static constexpr int64_t kMostReasons = 1000;

  void take_bad_lines();
  void look_at_texts();
  void select_utterances();
  // By the index alone.
  bool may_be_faulty(int64_t utterance) const;
  std::vector<Fault> faults_of(const Utterance& utterance) const;
  bool is_too_long(const Utterance& utterance) const {
    return options_.max_seconds > 0.0 && utterance.duration_s > options_.max_seconds;
  }
  // What is wrong with the text of an utterance, or of a piece of it: " in the piece from 2 s".
  std::vector<Fault> faults_of_text(const Tokenizer::Encoded& encoded,
                                    const std::string& piece) const;
  static std::string reason_of(const Utterance& utterance, const Fault& fault);
  std::optional<Fault> fault_of_length(const Utterance& utterance) const;
  std::optional<Fault> fault_of_rows(const Utterance& utterance) const;
  void add_pieces(const Utterance& utterance, int64_t place);
  Item item_at(int64_t place) const;
  int64_t num_samples(double seconds) const;
  int64_t most_samples(double seconds) const;
  void skip(int64_t utterance, const std::string& reason);
  Fault too_few_rows(int64_t rows) const;
  DataError error_of(const Utterance& utterance, const Fault& fault, const std::string& more) const;
  // Adds the line of the manifest to the error of a broken file.
  DataError error_of(const Utterance& utterance, const DataError& error) const;
  void check_file(const Utterance& line) const;
  [[noreturn]] void refuse_emptiness() const;
  Example read(const Item& item, int64_t place, int64_t epoch) const;
  std::vector<float> read_samples(const Utterance& line, int64_t place) const;

  Manifest manifest_;
  Tokenizer tokenizer_;
  DatasetOptions options_;
  AudioTreatment treatment_;
  // Archives that recordings lie in. Shared by the copies of a dataset.
  std::shared_ptr<TarShards> shards_;
  std::vector<uint32_t> utterances_;
  std::vector<Piece> pieces_;
  // Of each utterance of the manifest, where texts had to be looked at; empty where the index says
  // all: no character is unknown, and each is a label.
  std::vector<uint8_t> has_text_fault_;
  std::vector<uint32_t> num_labels_;
  int64_t num_skipped_ = 0;
  std::vector<SkippedUtterance> skipped_;
};

}  // namespace sotto::data
