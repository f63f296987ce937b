#include "sotto/decode/whisper_decoding.h"

#include <algorithm>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/decode/attended_frames.h"
#include "sotto/decode/fallback.h"

namespace sotto::decode {

namespace {

const data::ByteBpe& byte_bpe_of(const data::Tokenizer& tokenizer) {
  const data::ByteBpe* model = tokenizer.byte_bpe();
  if (model != nullptr) return *model;
  throw ConfigError({.attempted = "setting up Whisper's decoding",
                     .found = "a tokenizer that is not a byte-level BPE",
                     .expected = "Whisper's vocab.json and merges.txt, or its tokenizer.json",
                     .hint = ""});
}

// Returns the code of a language by name or code; empty for an empty name.
std::string code_of(const data::WhisperTokens& tokens, const std::string& name) {
  if (name.empty()) return {};
  const int32_t number = tokens.is_multilingual() ? tokens.language(name) : 0;
  if (!tokens.is_multilingual()) {
    // Throws for any language but English.
    static_cast<void>(tokens.prompt({.language = name}));
    return {};
  }
  const auto found = std::ranges::find_if(
      tokens.languages(), [&](const auto& entry) { return entry.second == number; });
  return found->first;
}

WhisperRuleOptions rule_options(const data::WhisperTokens& tokens,
                                const WhisperDecodeOptions& options,
                                const WhisperGeneration& generation) {
  WhisperRuleOptions rules{.suppressed = generation.suppress_tokens,
                           .suppressed_first = generation.begin_suppress_tokens};
  if (options.timestamps)
    rules.timestamps = TimestampRules{.first_timestamp = tokens.timestamp(0.0),
                                      .end = tokens.end(),
                                      .max_initial_index = generation.max_initial_timestamp_index};
  return rules;
}

}  // namespace

WhisperDecoding::WhisperDecoding(const DecodeOptions& options, const data::Tokenizer& tokenizer,
                                 WhisperResources resources)
    : tokenizer_(tokenizer),
      options_(options),
      resources_(std::move(resources)),
      tokens_(byte_bpe_of(tokenizer)),
      language_(code_of(tokens_, options.whisper.language)),
      rules_(rule_options(tokens_, options.whisper, resources_.generation)) {}

std::vector<std::string> WhisperDecoding::find_languages(models::Scorer& scorer) const {
  const auto num_utterances = static_cast<size_t>(scorer.size());
  std::vector<std::string> languages(num_utterances, language_);
  if (!language_.empty() || !tokens_.is_multilingual()) return languages;
  std::vector<int32_t> among;
  for (const auto& [code, token] : tokens_.languages()) among.push_back(token);
  const TokenPrompts start{.tokens =
                               std::vector(num_utterances, std::vector<int32_t>{tokens_.start()})};
  const std::vector<int32_t> found = find_first_token(scorer, start, among);
  for (size_t u = 0; u < num_utterances; ++u)
    for (const auto& [code, token] : tokens_.languages())
      if (token == found[u]) languages[u] = code;
  return languages;
}

std::vector<WindowTokens> WhisperDecoding::decode(models::Scorer& scorer,
                                                  std::span<const WhisperWindow> windows) const {
  SOTTO_ASSERT(std::ssize(windows) == scorer.size(), "{} windows of {} utterances", windows.size(),
               scorer.size());
  const WhisperDecodeOptions& whisper = options_.whisper;
  TokenPrompts prompts{.measured = tokens_.no_speech()};
  FallbackInput input{.seed = resources_.seed};
  for (const WhisperWindow& window : windows) {
    std::vector<int32_t>& prompt = prompts.tokens.emplace_back();
    if (!window.previous.empty()) prompt.push_back(tokens_.previous());
    prompt.insert(prompt.end(), window.previous.begin(), window.previous.end());
    prompt.push_back(tokens_.start());
    prompts.num_before = std::ssize(prompt);
    const std::vector<int32_t> rest = tokens_.prompt(
        {.language = window.language, .task = whisper.task, .has_timestamps = whisper.timestamps});
    prompt.insert(prompt.end(), rest.begin(), rest.end());
    input.utterances.push_back(window.key);
  }
  input.text_of = [&](std::span<const int32_t> tokens) {
    std::vector<int32_t> text;
    for (const int32_t token : tokens)
      if (token < text_end()) text.push_back(token);
    return tokenizer_.decode(text);
  };
  TokenSearchOptions search{.width = options_.beam,
                            .max_tokens_per_frame = options_.max_tokens_per_frame,
                            .min_tokens_per_frame = options_.min_tokens_per_frame,
                            .max_positions = whisper.max_length,
                            .length_penalty = options_.length_penalty,
                            .rules = &rules_,
                            .prompts = &prompts};
  std::vector<WindowTokens> found;
  for (FallbackResult& result :
       find_with_fallback(scorer, search,
                          {.temperatures = whisper.temperatures,
                           .max_compression = whisper.compression_ratio_threshold,
                           .min_log_probability = whisper.logprob_threshold,
                           .no_speech = whisper.no_speech_threshold},
                          input))
    found.push_back({.tokens = std::move(result.hypothesis.tokens),
                     .is_silent = result.is_silent,
                     .temperature = result.temperature});
  if (resources_.has_times) add_times(scorer, windows, prompts.tokens, found);
  return found;
}

void WhisperDecoding::add_times(models::Scorer& scorer, std::span<const WhisperWindow> windows,
                                std::span<const std::vector<int32_t>> prompts,
                                std::vector<WindowTokens>& found) const {
  std::vector<std::vector<int32_t>> tokens;
  std::vector<int64_t> num_frames;
  for (size_t u = 0; u < found.size(); ++u) {
    tokens.push_back(found[u].tokens);
    const int64_t all = scorer.num_frames()[u];
    num_frames.push_back(windows[u].num_frames > 0 ? windows[u].num_frames : all);
  }
  const std::vector<std::vector<int64_t>> frames =
      attended_frames(scorer, tokens, {.prompts = prompts, .num_frames = num_frames});
  constexpr double kFrameS = data::WhisperTokens::kTimestampStep;
  for (size_t u = 0; u < found.size(); ++u) {
    for (size_t i = 0; i < frames[u].size(); ++i) {
      // A token lasts until the next one begins.
      const int64_t end = i + 1 < frames[u].size() ? frames[u][i + 1] : num_frames[u];
      found[u].times.push_back({.start_s = kFrameS * static_cast<double>(frames[u][i]),
                                .end_s = kFrameS * static_cast<double>(end)});
    }
  }
}

LongRecordingOptions WhisperDecoding::recording(int64_t num_frames) const {
  return {.num_frames = num_frames,
          .first_timestamp = tokens_.timestamp(0.0),
          .uses_previous_text = options_.whisper.condition_on_previous_text,
          .max_previous_tokens = options_.whisper.max_length / 2 - 1};
}

}  // namespace sotto::decode
