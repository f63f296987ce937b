// The labels that come before the text of a transcript in a network of the family Whisper: its
// language, its task, and that it has no timestamps.
//
//   const WhisperPrompts prompts(tokenizer, rules, {.language = "polish"});
//   std::vector<int32_t> labels = prompts.of(utterance.lang);   // then those of the text
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sotto/core/config/options.h"
#include "sotto/data/text/tokenizer.h"
#include "sotto/data/text/whisper_tokens.h"

namespace sotto::data {

// The numbers of the vocabulary that a network is built for.
struct WhisperNumbers {
  int64_t vocabulary = 51'865;
  // <|startoftranscript|> and <|endoftext|>.
  int64_t start = 50'258;
  int64_t end = 50'257;
  // False: a network of English alone, whose prompts name no language and no task.
  bool multilingual = true;

  // Returns those of English alone.
  static WhisperNumbers of_english() {
    return {.vocabulary = 51'864, .start = 50'257, .end = 50'256, .multilingual = false};
  }

  // Number of tokens between the start of a transcript and its text.
  int64_t num_prompt() const { return multilingual ? 3 : 1; }

  void visit(OptionVisitor& visitor);
};

// What a network requires of the labels of an utterance.
struct PromptRules {
  WhisperNumbers numbers;
  // Most tokens with the prompt and the end.
  int64_t max_tokens = 448;
};

struct PromptOptions {
  // Name or code of the language of all utterances; empty: each utterance's own.
  std::string language = {};
  WhisperTask task = WhisperTask::kTranscribe;
};

class WhisperPrompts {
 public:
  // Throws ConfigError for a tokenizer that is not that of the network, and for a language or task
  // that it does not know.
  WhisperPrompts(const Tokenizer& tokenizer, const PromptRules& rules,
                 const PromptOptions& options);

  // Returns the prompt of an utterance in this language, which does not matter where all utterances
  // have one. Throws ConfigError for a language that the tokenizer does not know. Thread-safe.
  std::vector<int32_t> of(const std::string& lang) const;

  int64_t num_prompt() const { return rules_.numbers.num_prompt(); }
  // Most labels of an utterance with its prompt; its end comes after them.
  int64_t max_labels() const { return rules_.max_tokens - 1; }
  // Other prompts, or another limit, have another fingerprint.
  uint64_t fingerprint() const;

 private:
  PromptRules rules_;
  PromptOptions options_;
  WhisperTokens tokens_;
};

}  // namespace sotto::data
