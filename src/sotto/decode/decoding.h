// Converts a network's results for a micro-batch to the labels of its utterances and their text.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sotto/data/text/tokenizer.h"
#include "sotto/decode/beam_search.h"
#include "sotto/decode/decode_options.h"
#include "sotto/decode/text_normalizer.h"
#include "sotto/decode/token_search.h"
#include "sotto/decode/transducer_search.h"
#include "sotto/decode/word_scores.h"
#include "sotto/kernels/loss/ctc_greedy.h"
#include "sotto/models/model.h"

namespace sotto::decode {

struct DecodingOptions {
  // The search over an attention decoder. With a ctc_weight of 1 a network that has both is
  // searched by its frames alone.
  TokenSearchOptions tokens = {};
  TransducerSearchOptions lattice = {};
  // The beam search over scores of frames; null: the most likely label of each frame. A dry run
  // needs only the width in `tokens`.
  const BeamSearch* frames = nullptr;
  // Whether labels of an attention decoder need their frames. Labels of CTC always have them.
  bool has_times = false;
};

// The options of a dry run.
DecodingOptions dry_decoding(const DecodeOptions& options);

struct DecodingResources {
  // Memory limit of a search over frames; 0: unlimited.
  int64_t max_bytes = 0;
  // Receives the number of bytes of the language model that were read.
  std::function<void(int64_t)> progress = {};
};

// The searches that the settings describe, with their language model.
class Decoding {
 public:
  // Throws DataError where the language model cannot be read.
  Decoding(const DecodeOptions& options, const data::Tokenizer& tokenizer,
           const DecodingResources& resources = {});

  // Valid as long as this object.
  const DecodingOptions& options() const { return options_; }

 private:
  std::unique_ptr<const WordScores> words_;
  std::unique_ptr<const BeamSearch> frames_;
  DecodingOptions options_;
};

using Labels = std::vector<kernels::CtcGreedy::Label>;

// Returns the number of frames of each utterance that a search over a decoder or a lattice sees.
const std::vector<int64_t>& frames_of_search(const models::Recognition& recognition);

// Returns the labels of each utterance; none for a language model. Frames of labels of an attention
// decoder are those of the best CTC path where the network has CTC, else those of its attention.
std::vector<Labels> find_labels(const models::Recognition& recognition,
                                const DecodingOptions& options = {});

// Returns the normaliser of an evaluation; std::nullopt for none. Throws ConfigError where it needs
// spellings and there are none, DataError where they cannot be read.
std::optional<TextNormalizer> normalizer_of(const DecodeOptions& options,
                                            const data::Tokenizer& tokenizer);

// Returns the text of labels.
std::string text_of(std::span<const kernels::CtcGreedy::Label> labels,
                    const data::Tokenizer& tokenizer);

}  // namespace sotto::decode
