// A transcript of a recording, with the time of each word and segment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sotto/data/text/tokenizer.h"
#include "sotto/decode/beam_search.h"
#include "sotto/decode/decoding.h"
#include "sotto/decode/long_recording.h"

namespace sotto::decode {

struct Transcript {
  struct Word {
    std::string text = {};
    double start_s = 0.0;
    double end_s = 0.0;
  };

  // A part of the text as the network timed it.
  struct Segment {
    std::string text = {};
    double start_s = 0.0;
    double end_s = 0.0;
    // Its words, a range of `words`; empty where words have no times.
    size_t first_word = 0;
    size_t end_word = 0;
  };

  std::string text = {};
  double seconds = 0.0;
  // Times are those of the frames of its labels: a word begins with its first label and ends with
  // its last.
  std::vector<Word> words = {};
  // Of a network that writes timestamps. Empty for others: see segments_of().
  std::vector<Segment> segments = {};
  // Code of the language that was spoken or detected; empty: not known.
  std::string language = {};
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

// Makes the transcript of a recording from segments of tokens, of which those below `text_end` are
// text. Segments without text are left out, and no time is after the end of the recording.
Transcript make_transcript(std::span<const SegmentTokens> segments, double seconds,
                           const data::Tokenizer& tokenizer, int32_t text_end);

// Returns the segments of a transcript: its own, or its words up to pauses of a second.
std::vector<Transcript::Segment> segments_of(const Transcript& transcript);

}  // namespace sotto::decode
