// Arguments of the device versions of CrossEntropy. Internal to the kernel, and without LibTorch.
#pragma once

#include <cstdint>

namespace sotto::kernels {

// A row of the pack that counts.
struct CrossEntropyRow {
  int32_t index;  // row in the pack
  int32_t target;
  float weight;  // of its utterance
};

// The rows of a chunk, in the order of their logits. Pointers are device pointers.
struct CrossEntropyTask {
  const CrossEntropyRow* rows = nullptr;
  int64_t num_rows = 0;
  int64_t vocabulary = 0;
  double smoothing = 0.0;
  bool with_gradient = false;  // replaces the logits
  float* losses = nullptr;     // [N], by row of the pack
};

}  // namespace sotto::kernels
