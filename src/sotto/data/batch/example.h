// One item of a step in memory: an utterance, or a row of text. Knows no LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sotto::data {

struct Example {
  // Its place in the manifest, or the number of the row.
  int64_t utterance = 0;
  // Of an utterance that is cut: which of its pieces this is.
  int64_t piece = 0;
  // Samples [rows], or features [rows, feature_dim] row after row.
  std::vector<float> values = {};
  int64_t rows = 0;
  // 0 for audio and for text.
  int64_t feature_dim = 0;
  // As the manifest says; 0 for text.
  double seconds = 0.0;
  // Of text: the entries that a language model sees, one a row; `labels` are those that come next.
  std::vector<int32_t> tokens = {};
  std::vector<int32_t> labels = {};
  // What was said, by the rules of texts, by whom and in which language; empty where it is unknown.
  std::string reference = {};
  std::string speaker = {};
  std::string lang = {};
  // Of text: rows of its segments, which know nothing of each other; empty: it is one.
  std::vector<int64_t> segments = {};
};

// Whether it is a row of text.
inline bool is_text(const Example& example) {
  return !example.tokens.empty();
}

// Of an example in a pack: its segments there.
inline size_t num_segments(const Example& example) {
  return example.segments.empty() ? 1 : example.segments.size();
}

// What decides how much memory an item takes.
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

// An utterance without values, for dry runs: what they allocate follows from the sizes alone.
Example make_dry_example(int64_t rows, int64_t feature_dim, int64_t num_labels);
// The same of a row of text. Its segments but the last have one token each.
Example make_dry_text(int64_t num_tokens, int64_t num_segments = 1);

struct SkippedUtterance {
  // Its place in the manifest; -1: a line that is none.
  int64_t utterance = 0;
  std::string reason;
};

}  // namespace sotto::data
