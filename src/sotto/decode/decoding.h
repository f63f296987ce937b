// From what a network says of a micro-batch to the labels of its utterances and their text.
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
  // For frame scores; null: the likeliest label of each frame.
  const BeamSearch* beam = nullptr;
  // For a network that is asked token by token.
  TokenSearchOptions tokens = {};
};

// The labels of each utterance; none from a language model. Throws ConfigError where a beam search
// over frames is asked for and the network has no frame scores.
std::vector<std::vector<kernels::CtcGreedy::Label>> find_labels(
    const models::Recognition& recognition, const DecodingOptions& options = {});

// The text of labels.
std::string text_of(std::span<const kernels::CtcGreedy::Label> labels,
                    const data::Tokenizer& tokenizer);

}  // namespace sotto::decode
