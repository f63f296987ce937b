// What was heard in a recording, with the time of each word, and how it is written as subtitles.
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
  // By the frames in which CTC says their labels: a word begins with its first and ends with its
  // last.
  std::vector<Word> words = {};
};

// Of the logits [T, V] of a recording, row after row. A null beam: the likeliest label of each
// frame.
Transcript make_transcript(std::span<const float> logits, double seconds,
                           const data::Tokenizer& tokenizer, const BeamSearch* beam);

// SubRip subtitles: captions of about ten words, or up to a pause of a second.
std::string to_srt(const Transcript& transcript);

}  // namespace sotto::decode
