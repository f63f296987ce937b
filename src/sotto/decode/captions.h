// Divides a transcript into captions that fit on a screen, in whole milliseconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sotto/decode/transcript.h"

namespace sotto::decode {

struct Caption {
  int64_t start_ms = 0;
  int64_t end_ms = 0;
  // One line or more, none of them empty; UTF-8 without control characters.
  std::vector<std::string> lines = {};
};

// Returns the captions: at most two lines of 42 characters, shown for at most 7 s. A new one begins
// with each segment and after a pause of a second. Each takes time and none begins before the one
// before it ends, whatever times the transcript has. Where words have no times, the time of a
// segment is divided by characters; a word that fits in no line is divided, too.
std::vector<Caption> make_captions(const Transcript& transcript);

}  // namespace sotto::decode
