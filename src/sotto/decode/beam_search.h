// Finds the most likely transcripts of an utterance by prefix beam search over CTC frames (Hannun
// et al., "First-Pass Large Vocabulary Continuous Speech Recognition using Bi-Directional Recurrent
// DNNs"), optionally with a word-level language model. T frames, V entries of the vocabulary.
//
// A prefix is the sum of all paths that collapse to it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sotto/data/text/tokenizer.h"
#include "sotto/decode/ngram_model.h"
#include "sotto/decode/word_scores.h"
#include "sotto/kernels/loss/ctc_greedy.h"

namespace sotto::decode {

struct BeamOptions {
  // Number of prefixes kept from frame to frame.
  int64_t width = 16;
  // Entries of a frame that are considered: those within this distance of the most likely one, in
  // log probability.
  double depth = 12.0;
  WordOptions words = {};
  // Memory limit of a search; 0: unlimited.
  int64_t max_bytes = 0;
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

  BeamOptions options_;
  WordScores words_;
  int32_t blank_;
};

}  // namespace sotto::decode
