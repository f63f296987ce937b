#include "sotto/data/batch/example.h"

#include "sotto/core/error.h"

namespace sotto::data {

Example make_dry_example(int64_t rows, int64_t feature_dim, int64_t num_labels) {
  // The values of the labels are never read.
  Example example{.rows = rows, .feature_dim = feature_dim};
  example.labels.assign(static_cast<size_t>(num_labels), 1);
  return example;
}

Example make_dry_text(int64_t num_tokens, int64_t num_segments) {
  SOTTO_ASSERT(num_segments >= 1 && num_segments <= num_tokens, "{} segments of {} tokens",
               num_segments, num_tokens);
  Example example{.rows = num_tokens};
  example.tokens.assign(static_cast<size_t>(num_tokens), 0);
  example.labels.assign(static_cast<size_t>(num_tokens), 0);
  if (num_segments == 1) return example;
  example.segments.assign(static_cast<size_t>(num_segments), 1);
  example.segments.back() = num_tokens - num_segments + 1;
  return example;
}

}  // namespace sotto::data
