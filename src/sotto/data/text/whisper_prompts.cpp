#include "sotto/data/text/whisper_prompts.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/hash.h"

namespace sotto::data {

namespace {

[[noreturn]] void refuse_tokenizer(std::string found, std::string expected) {
  throw ConfigError({.attempted = "checking the tokenizer of a Whisper network",
                     .found = std::move(found),
                     .expected = std::move(expected),
                     .hint = "Use the tokenizer of the model that the network has its sizes from: "
                             "--set data.tokenizer=FOLDER."});
}

WhisperTokens tokens_of(const Tokenizer& tokenizer) {
  if (tokenizer.byte_bpe() == nullptr)
    refuse_tokenizer("a tokenizer that is not a byte-level BPE",
                     "the tokenizer of a Whisper model: a tokenizer.json, or a vocab.json with its "
                     "merges.txt");
  return WhisperTokens(*tokenizer.byte_bpe());
}

void check_numbers(const WhisperTokens& tokens, const WhisperNumbers& numbers) {
  if (tokens.size() != numbers.vocabulary)
    refuse_tokenizer(
        fmt::format("{} entries", tokens.size()),
        fmt::format("{}, as the network has (model.tokens.vocabulary)", numbers.vocabulary));
  if (tokens.start() != numbers.start || tokens.end() != numbers.end ||
      tokens.is_multilingual() != numbers.multilingual)
    refuse_tokenizer(
        fmt::format("a {} vocabulary that starts a transcript with {} and ends it with {}",
                    tokens.is_multilingual() ? "multilingual" : "monolingual", tokens.start(),
                    tokens.end()),
        fmt::format("a {} one with {} and {}, as the network has (model.tokens)",
                    numbers.multilingual ? "multilingual" : "monolingual", numbers.start,
                    numbers.end));
}

}  // namespace

void WhisperNumbers::visit(OptionVisitor& visitor) {
  visitor.value("vocabulary", vocabulary,
                "entries of the tokenizer: 51864 for English alone, 51865, or 51866 for large-v3",
                {.min = 2, .max = 10'000'000});
  visitor.value("start", start, "number of <|startoftranscript|>", {.min = 0, .max = 10'000'000});
  visitor.value("end", end, "number of <|endoftext|>", {.min = 0, .max = 10'000'000});
  visitor.value("multilingual", multilingual,
                "prompts name a language and a task; false: English alone");
}

WhisperPrompts::WhisperPrompts(const Tokenizer& tokenizer, const PromptRules& rules,
                               const PromptOptions& options)
    : rules_(rules), options_(options), tokens_(tokens_of(tokenizer)) {
  check_numbers(tokens_, rules.numbers);
  // Whatever the utterances are: an unknown language or task of the run is found here.
  if (!options.language.empty() || !rules.numbers.multilingual) of("");
}

std::vector<int32_t> WhisperPrompts::of(const std::string& lang) const {
  // An utterance of a corpus in English may name its language, with a network of English alone too.
  return tokens_.prompt(
      {.language = options_.language.empty() ? lang : options_.language, .task = options_.task});
}

uint64_t WhisperPrompts::fingerprint() const {
  uint64_t hash =
      hash_combine(static_cast<uint64_t>(rules_.max_tokens), hash_bytes(options_.language));
  hash = hash_combine(hash, static_cast<uint64_t>(rules_.numbers.start));
  return hash_combine(hash, hash_bytes(name_of(options_.task, kWhisperTasks)));
}

}  // namespace sotto::data
