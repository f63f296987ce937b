// Joins what was found in the overlapping windows of a long recording.
#pragma once

#include <cstdint>
#include <span>

#include "sotto/data/text/tokenizer.h"
#include "sotto/decode/decoding.h"

namespace sotto::decode {

// The labels of a window, and its own part of the recording: frames `begin` to `end` of the window.
struct WindowLabels {
  Labels labels = {};
  int64_t begin = 0;
  int64_t end = 0;
};

// Returns the labels of the whole recording, whose frames are those of the windows' own parts, one
// after the other. A word belongs to the window in whose part it begins, with all of its labels:
// windows may place a letter differently.
Labels join_windows(std::span<const WindowLabels> windows, const data::Tokenizer& tokenizer);

}  // namespace sotto::decode
