#include "sotto/decode/whisper_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "sotto/core/error.h"

namespace sotto::decode {

void WhisperDecodeOptions::visit(OptionVisitor& visitor) {
  visitor.value("language", language, "language that is spoken, by name or code; empty: detected");
  visitor.choice("task", task, "transcribe, or translate to English", data::kWhisperTasks);
  visitor.value("timestamps", timestamps, "write timestamps, which give segments their times");
  visitor.value("max_length", max_length, "tokens of a window, including its prompt",
                {.min = 8, .max = kPositions});
  visitor.value("temperatures", temperatures,
                "temperatures tried in turn until a text passes; 0: the search itself",
                {.min = 0, .max = 10});
  visitor.value("compression_ratio_threshold", compression_ratio_threshold,
                "a text that compresses better repeats itself: it is tried again", {.above = 0});
  visitor.value("logprob_threshold", logprob_threshold,
                "a text with a lower mean log-probability is tried again", {.max = 0});
  visitor.value("no_speech_threshold", no_speech_threshold,
                "probability of no speech above which an improbable text is silence",
                {.min = 0, .max = 1});
  visitor.value("condition_on_previous_text", condition_on_previous_text,
                "give each window of a recording the text before it");
}

void WhisperDecodeOptions::validate() const {
  const bool is_rising =
      std::ranges::adjacent_find(temperatures, std::greater_equal()) == temperatures.end();
  if (!temperatures.empty() && is_rising) return;
  throw ConfigError(
      {.attempted = "checking the settings of decoding",
       .found = fmt::format("decode.whisper.temperatures [{}]", fmt::join(temperatures, ", ")),
       .expected = "one temperature or more, each above the one before it",
       .hint = "Example: [0, 0.2, 0.4]; [0] for none."});
}

}  // namespace sotto::decode
