// The utterances of a manifest that take part in training, and how each is loaded. What is wrong
// with an utterance is met by a policy: `error` stops and says what to do, `skip` leaves it out and
// lists it with its reason.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "sotto/core/options.h"
#include "sotto/data/audio_cache.h"
#include "sotto/data/augmentation.h"
#include "sotto/data/manifest.h"
#include "sotto/data/tar_shards.h"
#include "sotto/data/tokenizer.h"

namespace sotto::data {

enum class Policy { kError, kSkip, kKeep };

inline constexpr std::array kPolicies = {Named<Policy>{"error", Policy::kError},
                                         Named<Policy>{"skip", Policy::kSkip}};
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

// An utterance in memory.
struct Example {
  // Its place in the manifest.
  int64_t utterance = 0;
  // Samples [rows], or features [rows, feature_dim] row after row.
  std::vector<float> values;
  int64_t rows = 0;
  // 0 for audio and for text.
  int64_t feature_dim = 0;
  // Of text: the entries that a language model sees, one a row; `labels` are those that come next.
  std::vector<int32_t> tokens = {};
  std::vector<int32_t> labels = {};
  // Of text: rows of its segments, which know nothing of each other; empty: it is one.
  std::vector<int64_t> segments = {};
};

struct SkippedUtterance {
  // Its place in the manifest; -1: a line that is none.
  int64_t utterance = 0;
  std::string reason;
};

// What a dataset may do with audio besides decoding it.
struct AudioTreatment {
  std::shared_ptr<const Augmentation> augmentation = {};
  // Shared by the copies of a dataset.
  std::shared_ptr<AudioCache> cache = {};
};

class Dataset {
 public:
  // Looks at durations and transcripts; files are opened by load(). Throws DataError where a policy
  // says so, with the first such utterance and how many there are, and where no utterance is left;
  // ConfigError for a treatment of audio where there is none.
  Dataset(Manifest manifest, Tokenizer tokenizer, const DatasetOptions& options,
          AudioTreatment treatment = {});

  const Manifest& manifest() const { return manifest_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  const DatasetOptions& options() const { return options_; }

  // Places in the manifest of those that take part, in order: 4 bytes each, as there may be
  // millions.
  const std::vector<uint32_t>& utterances() const { return utterances_; }
  // How many were left out, and the first of them with their reasons, in order.
  int64_t num_skipped() const { return num_skipped_; }
  const std::vector<SkippedUtterance>& skipped() const { return skipped_; }
  // Seconds of utterances(), for the sampler.
  std::vector<float> durations_s() const;
  // The labels of an utterance that takes part, by its place in the manifest.
  std::vector<int32_t> labels_of(int64_t utterance) const;
  // Samples or frames, as the manifest says and at the slowest tempo, and labels, of
  // utterances()[place].
  struct Size {
    int64_t rows = 0;
    int64_t labels = 0;
  };
  Size size_of(int64_t place) const;

  // Reads an utterance that takes part, as it is in an epoch. One that is broken, or too short once
  // decoded, is returned as skipped or thrown as DataError, as the policy says. May be called from
  // several threads.
  std::variant<Example, SkippedUtterance> load(int64_t utterance, int64_t epoch) const;

 private:
  // What is wrong with an utterance by its line in the manifest, and which setting decides.
  struct Fault {
    std::string found;
    std::string expected;
    Policy policy = Policy::kError;
    const char* setting = "";
  };

  // Of skipped utterances the reasons are kept for so many.
  static constexpr int64_t kMostReasons = 1000;

  void take_bad_lines();
  void look_at_texts();
  void select_utterances();
  // By the index alone.
  bool may_be_faulty(int64_t utterance) const;
  std::vector<Fault> faults_of(const Utterance& utterance) const;
  void skip(int64_t utterance, const std::string& reason);
  Fault too_few_rows(int64_t rows) const;
  DataError error_of(const Utterance& utterance, const Fault& fault, const std::string& more) const;
  [[noreturn]] void refuse_emptiness() const;
  Example read(const Utterance& line, int64_t utterance, int64_t epoch) const;
  std::vector<float> read_samples(const Utterance& line, int64_t utterance) const;

  Manifest manifest_;
  Tokenizer tokenizer_;
  DatasetOptions options_;
  AudioTreatment treatment_;
  // Archives that recordings lie in. Shared by the copies of a dataset.
  std::shared_ptr<TarShards> shards_;
  std::vector<uint32_t> utterances_;
  // Of each utterance of the manifest, where texts had to be looked at; empty where the index says
  // all: no character is unknown, and each is a label.
  std::vector<uint8_t> has_text_fault_;
  std::vector<uint32_t> num_labels_;
  int64_t num_skipped_ = 0;
  std::vector<SkippedUtterance> skipped_;
};

}  // namespace sotto::data
