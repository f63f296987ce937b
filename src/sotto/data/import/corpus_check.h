// What is wrong with a corpus, before hours of training find it out: every line, transcript and
// recording of a manifest is looked at.
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

// In the order of tables, with what people read there.
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
  // Its place in the manifest; -1: a line that is none.
  int64_t utterance = -1;
  int64_t line = 0;
  // "peak 0.0002", with what was expected.
  std::string detail;
};

struct CorpusCheckOptions {
  // What the transcripts must be made of.
  const Tokenizer* tokenizer = nullptr;
  // Frames that a network makes of so many samples or rows; none: CTC's feasibility is not looked
  // at.
  std::function<int64_t(int64_t)> num_frames = {};
  // Of the network, in Hz.
  int64_t sample_rate = 16'000;
  // 0: as many as the machine has cores.
  int64_t num_threads = 0;
  // Most memory that decoding a single recording may take; 0: any.
  int64_t max_audio_bytes = 0;
  // Utterances done, of all; called by one thread at a time.
  std::function<void(int64_t, int64_t)> on_progress = {};
};

struct CorpusCheck {
  int64_t num_utterances = 0;
  double seconds = 0.0;
  // In the order of the lines; of broken lines the first.
  std::vector<Finding> findings;
  // Broken lines that are not among the findings: of a file that is no manifest there may be
  // millions.
  int64_t num_unlisted = 0;

  // Those that are not listed among them.
  int64_t count(Fault fault) const;
  int64_t num_findings() const { return std::ssize(findings) + num_unlisted; }
  // Places of utterances without a finding, in order.
  std::vector<int64_t> clean() const;
};

// Peaks below this are silence: 60 dB below full scale.
inline constexpr float kSilence = 1e-3f;
// Samples at full scale, in runs of at least three, of all samples: what counts as clipped.
inline constexpr double kClippedShare = 1e-3;

CorpusCheck check_corpus(const Manifest& manifest, const CorpusCheckOptions& options);

// The lines of utterances without a finding, as a manifest. Relative paths stay right in another
// folder. Throws DataError.
void write_clean(const Manifest& manifest, const CorpusCheck& check,
                 const std::filesystem::path& path);

// Of decoded samples; none where they are well. Here for the tests.
std::optional<Finding> fault_of_samples(const std::vector<float>& samples);

}  // namespace sotto::data
