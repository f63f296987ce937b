// One item of a step in memory: an utterance, or a row of text. Independent of LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sotto::data {

struct Example {
  // Index in the manifest, or the index of the row.
  int64_t utterance = 0;
  // Index of the piece, for an utterance that is cut.
  int64_t piece = 0;
  // Samples [rows], or features [rows, feature_dim] row by row.
  std::vector<float> values = {};
  int64_t rows = 0;
  // 0 for audio and for text.
  int64_t feature_dim = 0;
  // Duration in the manifest; 0 for text.
  double seconds = 0.0;
  // For text: the tokens that a language model sees, one per row; `labels` are the tokens that
  // follow them.
  std::vector<int32_t> tokens = {};
  std::vector<int32_t> labels = {};
  // The transcript after the text rules, its speaker and its language; empty if unknown.
  std::string reference = {};
  std::string speaker = {};
  std::string lang = {};
  // For text: lengths in rows of its independent segments; empty: a single segment.
  std::vector<int64_t> segments = {};
};

// Returns whether it is a row of text.
inline bool is_text(const Example& example) {
  return !example.tokens.empty();
}

// Returns the number of segments of an example in a pack.
inline size_t num_segments(const Example& example) {
  return example.segments.empty() ? 1 : example.segments.size();
}

// The quantities that determine the memory of an item.
struct ExampleSize {
  int64_t rows = 0;
  int64_t labels = 0;
  int64_t segments = 1;
};

inline ExampleSize size_of(const Example& example) {
  return {.rows = example.rows,
          .labels = std::ssize(example.labels),
          .segments = static_cast<int64_t>(num_segments(example))};
}

// Creates an utterance without values, for dry runs: their allocations depend only on the sizes.
Example make_dry_example(int64_t rows, int64_t feature_dim, int64_t num_labels);
// Creates a row of text without values, for dry runs. Its segments except the last have one token
// each.
Example make_dry_text(int64_t num_tokens, int64_t num_segments = 1);

struct SkippedUtterance {
  // Index in the manifest; -1: a line that is not an utterance.
  int64_t utterance = 0;
  std::string reason;
};

}  // namespace sotto::data
