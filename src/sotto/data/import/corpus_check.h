// Checks a corpus before training: every line, transcript and recording of a manifest is examined.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sotto/core/config/options.h"
#include "sotto/data/manifest/manifest.h"
#include "sotto/data/text/tokenizer.h"

namespace sotto::data {

enum class Fault {
  kBrokenLine,
  kUnreadable,
  kEmptyAudio,
  kSilent,
  kClipped,
  kNotFinite,
  kWrongDuration,
  kEmptyText,
  kUnknownText,
  kTooManyLabels,
  kDuplicate,
  kOddRate
};

// In the order of tables, with the names shown there.
inline constexpr std::array kFaults = {Named<Fault>{"broken line", Fault::kBrokenLine},
                                       Named<Fault>{"unreadable", Fault::kUnreadable},
                                       Named<Fault>{"empty audio", Fault::kEmptyAudio},
                                       Named<Fault>{"silent", Fault::kSilent},
                                       Named<Fault>{"clipped", Fault::kClipped},
                                       Named<Fault>{"not finite", Fault::kNotFinite},
                                       Named<Fault>{"wrong duration", Fault::kWrongDuration},
                                       Named<Fault>{"empty text", Fault::kEmptyText},
                                       Named<Fault>{"unknown text", Fault::kUnknownText},
                                       Named<Fault>{"too many labels", Fault::kTooManyLabels},
                                       Named<Fault>{"duplicate", Fault::kDuplicate},
                                       Named<Fault>{"odd rate", Fault::kOddRate}};

struct Finding {
  Fault fault = Fault::kBrokenLine;
  // Index in the manifest; -1: a line that is not an utterance.
  int64_t utterance = -1;
  int64_t line = 0;
  // Example: "peak 0.0002", with the expected value.
  std::string detail;
};

struct CorpusCheckOptions {
  // Tokenizer that must be able to encode the transcripts.
  const Tokenizer* tokenizer = nullptr;
  // Returns the number of frames that a network computes from a number of samples or rows; empty:
  // CTC's feasibility is not checked.
  std::function<int64_t(int64_t)> num_frames = {};
  // Sample rate of the network, in Hz.
  int64_t sample_rate = 16'000;
  // 0: one per core.
  int64_t num_threads = 0;
  // Maximum memory for decoding a single recording; 0: unlimited.
  int64_t max_audio_bytes = 0;
  // Receives the number of utterances done and their total; called by one thread at a time.
  std::function<void(int64_t, int64_t)> on_progress = {};
};

struct CorpusCheck {
  int64_t num_utterances = 0;
  double seconds = 0.0;
  // In the order of the lines; of broken lines only the first ones.
  std::vector<Finding> findings;
  // Number of broken lines that are not among the findings: a file that is not a manifest may have
  // millions.
  int64_t num_unlisted = 0;

  // Returns the number of findings, including those that are not listed.
  int64_t count(Fault fault) const;
  int64_t num_findings() const { return std::ssize(findings) + num_unlisted; }
  // Returns the indices of utterances without a finding, in order.
  std::vector<int64_t> clean() const;
};

// Peaks below this are silence: 60 dB below full scale.
inline constexpr float kSilence = 1e-3f;
// Threshold for clipping: fraction of samples that are at full scale in runs of at least three.
inline constexpr double kClippedShare = 1e-3;

CorpusCheck check_corpus(const Manifest& manifest, const CorpusCheckOptions& options);

// Writes the lines of utterances without a finding as a manifest. Relative paths are adjusted for
// another folder. Throws DataError.
void write_clean(const Manifest& manifest, const CorpusCheck& check,
                 const std::filesystem::path& path);

// Returns the fault of decoded samples; std::nullopt if there is none. Public for the tests.
std::optional<Finding> fault_of_samples(const std::vector<float>& samples);

}  // namespace sotto::data
