// A transcript of a recording, with the time of each word, and its conversion to subtitles.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sotto/data/text/tokenizer.h"
#include "sotto/decode/beam_search.h"
#include "sotto/decode/decoding.h"

namespace sotto::decode {

struct Transcript {
  struct Word {
    std::string text = {};
    double start_s = 0.0;
    double end_s = 0.0;
  };

  std::string text = {};
  double seconds = 0.0;
  // Times are those of the frames of its labels: a word begins with its first label and ends with
  // its last.
  std::vector<Word> words = {};
};

// Returns the labels of a recording from its logits [T, V], row-major. A null beam: the most likely
// label of each frame.
Labels labels_of(std::span<const float> logits, const data::Tokenizer& tokenizer,
                 const BeamSearch* beam);

// The length of a recording, and the number of frames that it has in labels.
struct Extent {
  double seconds = 0.0;
  int64_t num_frames = 0;
};

// Makes the transcript of a recording from its labels.
Transcript make_transcript(std::span<const kernels::CtcGreedy::Label> labels, const Extent& extent,
                           const data::Tokenizer& tokenizer);

// Returns SubRip subtitles: captions of about ten words, or up to a pause of a second.
std::string to_srt(const Transcript& transcript);

}  // namespace sotto::decode
