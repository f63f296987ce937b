// Decodes windows of audio with a network that has Whisper's tokens: prompt, rules, temperature
// fallback, language and times, over its Scorer. A recording is decoded window by window:
//
//   const WhisperDecoding decoding(options, tokenizer, {.generation = ..., .seed = ...});
//   const std::string language = decoding.find_languages(scorer).front();
//   const auto segments = find_segments(decoding.recording(num_frames), [&](const auto& window) {
//     ... recognise the window's audio: a micro-batch of one utterance, with a Scorer ...
//     return decoding.decode(scorer, {{.language = language, .previous =
//     window.previous}}).front();
//   });
//   make_transcript(segments, seconds, tokenizer, decoding.text_end());
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sotto/data/text/tokenizer.h"
#include "sotto/data/text/whisper_tokens.h"
#include "sotto/decode/decode_options.h"
#include "sotto/decode/long_recording.h"
#include "sotto/decode/whisper_rules.h"
#include "sotto/models/scorer.h"

namespace sotto::decode {

// What a model's generation_config.json says about its tokens.
struct WhisperGeneration {
  std::vector<int32_t> suppress_tokens = {};
  std::vector<int32_t> begin_suppress_tokens = {};
  std::optional<int32_t> max_initial_timestamp_index = std::nullopt;
};

struct WhisperResources {
  WhisperGeneration generation = {};
  // Seed of the tokens that are drawn.
  uint64_t seed = 0;
  // Whether tokens are given times. The decoder is then run over them once more.
  bool has_times = false;
};

// A window of a micro-batch.
struct WhisperWindow {
  // Code of its language; empty for a vocabulary of English alone.
  std::string language = {};
  // Tokens before it.
  std::span<const int32_t> previous = {};
  // Key of its random numbers.
  UtteranceKey key = {};
  // Encoder frames of its audio, if it is padded; 0: all.
  int64_t num_frames = 0;
};

class WhisperDecoding {
 public:
  // Throws ConfigError for a tokenizer that does not have Whisper's tokens, and for a language that
  // these do not have. The tokenizer must outlive this object.
  WhisperDecoding(const DecodeOptions& options, const data::Tokenizer& tokenizer,
                  WhisperResources resources);

  // Returns the code of the language of each utterance: that of the settings, or the likeliest
  // after the start; empty for a vocabulary of English alone.
  std::vector<std::string> find_languages(models::Scorer& scorer) const;

  // Returns what is said in each utterance of the scorer's micro-batch, which are all of its
  // windows. Their prompts must have one length: windows with previous text are micro-batches of
  // their own.
  std::vector<WindowTokens> decode(models::Scorer& scorer,
                                   std::span<const WhisperWindow> windows) const;

  // Returns the way through a recording of that many frames of the front end, 10 ms each.
  LongRecordingOptions recording(int64_t num_frames) const;

  // Entries below it are text.
  int32_t text_end() const { return tokens_.end(); }

 private:
  // Sets the times of the tokens that were found.
  void add_times(models::Scorer& scorer, std::span<const WhisperWindow> windows,
                 std::span<const std::vector<int32_t>> prompts,
                 std::vector<WindowTokens>& found) const;

  const data::Tokenizer& tokenizer_;
  DecodeOptions options_;
  WhisperResources resources_;
  data::WhisperTokens tokens_;
  // Code of the language of the settings; empty: detected.
  std::string language_;
  WhisperRules rules_;
};

}  // namespace sotto::decode
