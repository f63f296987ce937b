// All labellings of a few frames with their probabilities, by all paths there are: what searches
// over CTC are compared with.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include "sotto/core/rng.h"

namespace sotto::test {

// Logits [frames, entries], row-major.
inline std::vector<float> draw_logits(int64_t num_frames, int64_t num_entries, uint64_t seed) {
  const RandomStream stream({.seed = seed}, {});
  std::vector<float> logits;
  for (int64_t i = 0; i < num_frames * num_entries; ++i)
    logits.push_back(2.0f * stream.normal(static_cast<uint64_t>(i)));
  return logits;
}

inline double log_probability(const std::vector<float>& logits, int64_t num_entries, int64_t frame,
                              int64_t entry) {
  double total = 0.0;
  for (int64_t v = 0; v < num_entries; ++v)
    total += std::exp(double{logits[static_cast<size_t>(frame * num_entries + v)]});
  return double{logits[static_cast<size_t>(frame * num_entries + entry)]} - std::log(total);
}

// The probability of each labelling; entry 0 is the blank.
inline std::map<std::vector<int32_t>, double> all_labellings(const std::vector<float>& logits,
                                                             int64_t num_entries) {
  const int64_t num_frames = std::ssize(logits) / num_entries;
  const auto num_paths = static_cast<int64_t>(std::pow(num_entries, num_frames));
  std::map<std::vector<int32_t>, double> sums;
  for (int64_t path = 0; path < num_paths; ++path) {
    std::vector<int32_t> labels;
    double score = 0.0;
    int64_t last = 0;
    for (int64_t frame = 0, rest = path; frame < num_frames; ++frame, rest /= num_entries) {
      const int64_t entry = rest % num_entries;
      score += log_probability(logits, num_entries, frame, entry);
      if (entry != 0 && entry != last) labels.push_back(static_cast<int32_t>(entry));
      last = entry;
    }
    sums[labels] += std::exp(score);
  }
  return sums;
}

}  // namespace sotto::test
