// Settings of decoding that networks with Whisper's tokens alone have: the configuration's
// `decode.whisper:`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sotto/core/config/options.h"
#include "sotto/data/text/whisper_tokens.h"

namespace sotto::decode {

struct WhisperDecodeOptions {
  // Positions of Whisper's decoder.
  static constexpr int64_t kPositions = 448;

  // Name or code of the language that is spoken; empty: detected.
  std::string language = {};
  data::WhisperTask task = data::WhisperTask::kTranscribe;
  // Whether timestamps are written: segments then have times, and the windows of a long recording
  // follow them.
  bool timestamps = true;
  // Tokens of a window, including its prompt.
  int64_t max_length = kPositions;
  // Temperatures that are tried in turn; 0: the search itself. A single one is final.
  std::vector<double> temperatures = {0.0, 0.2, 0.4, 0.6, 0.8, 1.0};
  // A text that zlib compresses better, or with a lower mean log-probability, is tried again; with
  // a lower one, too, it is silence where no speech is likelier than its threshold.
  double compression_ratio_threshold = 2.4;
  double logprob_threshold = -1.0;
  double no_speech_threshold = 0.6;
  // Whether a window is given the text before it.
  bool condition_on_previous_text = false;

  void visit(OptionVisitor& visitor);
  void validate() const;

  friend bool operator==(const WhisperDecodeOptions&, const WhisperDecodeOptions&) = default;
};

}  // namespace sotto::decode
