// Finds the labels of a transducer (RNN-T or TDT) over its LatticeScorer, for all utterances of a
// micro-batch at once, frame by frame.
//
// Greedy: the likeliest entry at each node, and with durations the likeliest of them. A beam: the
// probabilities of all alignments of a label sequence that the beam keeps are added up, as in the
// loss; a beam that keeps all of them finds the likeliest sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "sotto/kernels/loss/ctc_greedy.h"
#include "sotto/models/lattice_scorer.h"

namespace sotto::decode {

struct TransducerSearchOptions {
  // Number of hypotheses kept per utterance and frame; 1: greedy.
  int64_t width = 1;
  // Maximum number of labels at one frame.
  int64_t max_symbols = 10;
};

struct TransducerHypothesis {
  std::vector<kernels::CtcGreedy::Label> labels;
  // Log probability; 0 for a greedy search.
  double score = 0.0;
};

// Returns the best hypothesis of each utterance. On Meta a dry run: the memory of the widest
// search; it returns no labels.
std::vector<TransducerHypothesis> find_transducer_labels(
    models::LatticeScorer& scorer, const TransducerSearchOptions& options = {});

}  // namespace sotto::decode
