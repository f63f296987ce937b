// The special tokens of Whisper, found by their text in its vocabulary, and the tokens that come
// before and after the text of a transcript. A vocabulary is multilingual, or English alone
// (`.en`): then there are no tokens for languages and tasks, and all numbers are others.
//
//   const WhisperTokens tokens(*tokenizer.byte_bpe());
//   const auto targets = tokens.targets({.language = "polish"}, labels);
//   const auto inputs = tokens.decoder_input(targets);
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/config/options.h"
#include "sotto/data/text/byte_bpe.h"

namespace sotto::data {

enum class WhisperTask { kTranscribe, kTranslate };

inline constexpr std::array kWhisperTasks = {Named{"transcribe", WhisperTask::kTranscribe},
                                             Named{"translate", WhisperTask::kTranslate}};

struct WhisperPrompt {
  // Name or code of a language: "polish", "pl". Empty for a vocabulary of English alone.
  std::string language = {};
  WhisperTask task = WhisperTask::kTranscribe;
  // Whether the text has timestamps between its tokens.
  bool has_timestamps = false;
};

class WhisperTokens {
 public:
  // Seconds between two timestamps, and of the last one.
  static constexpr double kTimestampStep = 0.02;
  static constexpr double kLastTimestamp = 30.0;
  static constexpr int32_t kNumTimestamps = 1501;

  // Throws ConfigError for a vocabulary that is not Whisper's: where a token is missing.
  explicit WhisperTokens(const ByteBpe& vocabulary);

  // One more than the largest number, that of <|30.00|>: the entries of a network's head. Older
  // files do not name the timestamps.
  int64_t size() const { return int64_t{first_timestamp_} + kNumTimestamps; }
  bool is_multilingual() const { return !languages_.empty(); }
  // Codes of the languages of the vocabulary, and their numbers.
  const std::map<std::string, int32_t>& languages() const { return languages_; }

  int32_t start() const { return start_; }
  int32_t end() const { return end_; }
  int32_t no_timestamps() const { return no_timestamps_; }
  int32_t previous() const { return previous_; }
  // <|nospeech|>, or <|nocaptions|> in older files.
  int32_t no_speech() const { return no_speech_; }
  // Throws ConfigError for English alone.
  int32_t task(WhisperTask task) const;
  // Returns the number of a language, by name or code in any case. Throws ConfigError, with similar
  // names, for one that Whisper does not know, and for any but English with English alone.
  int32_t language(std::string_view name) const;
  // Returns the number of the nearest timestamp. Throws DataError outside of 0 to 30 seconds.
  int32_t timestamp(double seconds) const;
  // Returns the seconds of a timestamp; std::nullopt for other labels.
  std::optional<double> seconds_of(int32_t label) const;

  // Returns the tokens between the start of a transcript and its text: language, task, and no
  // timestamps unless it has them. Throws as language() and task() do.
  std::vector<int32_t> prompt(const WhisperPrompt& prompt) const;
  // Returns what a decoder learns to say: the prompt, the labels of the text, the end.
  std::vector<int32_t> targets(const WhisperPrompt& prompt, std::span<const int32_t> text) const;
  // Returns what the decoder sees: the start, then the targets without the last one.
  std::vector<int32_t> decoder_input(std::span<const int32_t> targets) const;

 private:
  // By code; empty for English alone.
  std::map<std::string, int32_t> languages_;
  int32_t start_ = 0;
  int32_t end_ = 0;
  int32_t no_timestamps_ = 0;
  int32_t previous_ = 0;
  int32_t no_speech_ = 0;
  int32_t first_timestamp_ = 0;
  std::optional<int32_t> transcribe_;
  std::optional<int32_t> translate_;
};

}  // namespace sotto::data
