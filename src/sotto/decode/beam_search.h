// Finds the most likely transcripts of an utterance by prefix beam search over CTC frames (Hannun
// et al., "First-Pass Large Vocabulary Continuous Speech Recognition using Bi-Directional Recurrent
// DNNs"), optionally with a word-level language model. T frames, V entries of the vocabulary.
//
// A prefix is the sum of all paths that collapse to it. The language model scores a word when it
// ends: at a space, at the piece that begins the next word, and at the end of the utterance.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sotto/core/config/options.h"
#include "sotto/data/text/tokenizer.h"
#include "sotto/decode/ngram_model.h"
#include "sotto/kernels/loss/ctc_greedy.h"

namespace sotto::decode {

struct BeamOptions {
  // Number of prefixes kept from frame to frame.
  int64_t width = 16;
  // Entries of a frame that are considered: those within this distance of the most likely one, in
  // log probability.
  double depth = 12.0;
  // Weight of the language model's log probabilities, and bonus per word, which offsets the
  // language model cost of each word.
  double lm_weight = 0.5;
  double word_bonus = 1.0;
  // Memory limit of a search; 0: unlimited.
  int64_t max_bytes = 0;

  static constexpr int64_t kMaxWidth = 10'000;
  void visit(OptionVisitor& visitor);
};

class BeamSearch {
 public:
  // Without a language model only acoustic scores are used, and there is no word bonus.
  BeamSearch(const data::Tokenizer& tokenizer, const BeamOptions& options,
             std::shared_ptr<const NgramModel> language_model = nullptr);

  struct Hypothesis {
    std::vector<kernels::CtcGreedy::Label> labels;
    // Log probability including language model scores and word bonuses.
    double score = 0.0;
  };

  // Returns the best hypotheses, at most `width`, best first. logits [T, V], row-major; a frame
  // with NaN counts as blank. Throws OutOfMemory before it would exceed `max_bytes`.
  std::vector<Hypothesis> decode(std::span<const float> logits) const;

 private:
  class Search;

  // The text that an entry adds.
  struct Entry {
    bool begins_word = false;
    std::string text;
  };

  BeamOptions options_;
  std::shared_ptr<const NgramModel> language_model_;
  std::vector<Entry> entries_;
  int32_t blank_;
};

}  // namespace sotto::decode
