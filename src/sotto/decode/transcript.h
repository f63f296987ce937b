// A transcript of a recording, with the time of each word, and its conversion to subtitles.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sotto/data/text/tokenizer.h"
#include "sotto/decode/beam_search.h"

namespace sotto::decode {

struct Transcript {
  struct Word {
    std::string text = {};
    double start_s = 0.0;
    double end_s = 0.0;
  };

  std::string text = {};
  double seconds = 0.0;
  // Times are those of the CTC frames of its labels: a word begins with its first label and ends
  // with its last.
  std::vector<Word> words = {};
};

// Makes the transcript of a recording from its logits [T, V], row-major. A null beam: the most
// likely label of each frame.
Transcript make_transcript(std::span<const float> logits, double seconds,
                           const data::Tokenizer& tokenizer, const BeamSearch* beam);

// Returns SubRip subtitles: captions of about ten words, or up to a pause of a second.
std::string to_srt(const Transcript& transcript);

}  // namespace sotto::decode
