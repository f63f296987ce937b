// Converts a network's results for a micro-batch to the labels of its utterances and their text.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sotto/data/text/tokenizer.h"
#include "sotto/decode/beam_search.h"
#include "sotto/decode/token_search.h"
#include "sotto/kernels/loss/ctc_greedy.h"
#include "sotto/models/model.h"

namespace sotto::decode {

struct DecodingOptions {
  // Beam search over frame scores; null: the most likely label of each frame.
  const BeamSearch* beam = nullptr;
  // Options for a network with a token-by-token decoder.
  TokenSearchOptions tokens = {};
};

// Returns the labels of each utterance; none for a language model. Throws ConfigError where a beam
// search over frames is requested and the network has no frame scores.
std::vector<std::vector<kernels::CtcGreedy::Label>> find_labels(
    const models::Recognition& recognition, const DecodingOptions& options = {});

// Returns the text of labels.
std::string text_of(std::span<const kernels::CtcGreedy::Label> labels,
                    const data::Tokenizer& tokenizer);

}  // namespace sotto::decode
