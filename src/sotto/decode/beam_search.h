// The likeliest transcripts of an utterance by prefix beam search over CTC's frames (Hannun et al.,
// "First-Pass Large Vocabulary Continuous Speech Recognition using Bi-Directional Recurrent DNNs"),
// with a language model of words where there is one. T frames, V entries of the vocabulary.
//
// A prefix is the sum of all paths that say it. A word counts for the language model when it ends:
// at a space, at the piece that begins the next word, and at the end of the utterance.
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
  // Prefixes that are kept from frame to frame.
  int64_t width = 16;
  // Entries of a frame that are looked at: those within so much of its likeliest, in logarithms.
  double depth = 12.0;
  // What a language model's logarithms are multiplied by, and what each word is given besides: it
  // makes up for what every word costs.
  double lm_weight = 0.5;
  double word_bonus = 1.0;
  // What a search may take; 0: any.
  int64_t max_bytes = 0;

  static constexpr int64_t kMaxWidth = 10'000;
  void visit(OptionVisitor& visitor);
};

class BeamSearch {
 public:
  // A null language model: the acoustic one alone, and words are given nothing.
  BeamSearch(const data::Tokenizer& tokenizer, const BeamOptions& options,
             std::shared_ptr<const NgramModel> language_model = nullptr);

  struct Hypothesis {
    std::vector<kernels::CtcGreedy::Label> labels;
    // The logarithm of its probability, with what words were given.
    double score = 0.0;
  };

  // The best, at most `width`, the best first. logits [T, V], row after row; a frame with NaN
  // counts as blank. Throws OutOfMemory before it would take more than `max_bytes`.
  std::vector<Hypothesis> decode(std::span<const float> logits) const;

 private:
  class Search;

  // What an entry adds to the text.
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
