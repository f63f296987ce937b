// Packs and dropout for a thread that processes rows in ascending order.
#pragma once

#include <cstdint>

#include "sotto/kernels/base/cuda_array.h"
#include "sotto/kernels/base/dropout_mask.h"
#include "sotto/kernels/cuda/cuda_rows.cuh"

namespace sotto::kernels {

// Finds the utterance of a row. Searches once, and again when a row is past the utterance's end.
class UtteranceCursor {
 public:
  __device__ explicit UtteranceCursor(const CudaPack& pack) : pack_(pack) {}

  // `row` must not be below that of the previous call.
  __device__ void move_to(int64_t row) {
    if (row < end_) return;
    auto last = static_cast<int>(pack_.num_utterances) - 1;
    while (utterance_ < last) {
      const int middle = (utterance_ + last) / 2;
      if (pack_.starts[middle + 1] <= row) {
        utterance_ = middle + 1;
      } else {
        last = middle;
      }
    }
    start_ = pack_.starts[utterance_];
    end_ = pack_.starts[utterance_ + 1];
    key_ = pack_.keys[utterance_];
  }

  __device__ int utterance() const { return utterance_; }
  __device__ int64_t start() const { return start_; }
  __device__ uint64_t key() const { return key_; }

 private:
  CudaPack pack_;
  int utterance_ = 0;
  int64_t start_ = 0;
  int64_t end_ = 0;
  uint64_t key_ = 0;
};

// Factors of adjacent elements: 0 if dropped.
template <int kSize>
struct DropoutFactors {
  float at[kSize];
};

// Returns the factors of the elements of an utterance from `element` on. If kSize is a whole block,
// it must start at the block's first element; otherwise it is one element at any position.
template <int kSize>
__device__ DropoutFactors<kSize> dropout_factors(const DropoutRule& rule, uint64_t utterance,
                                                 int64_t element) {
  static_assert(kSize == kDropoutBlock || kSize == 1);
  const PhiloxCounter bits =
      dropout_bits(static_cast<uint64_t>(element / kDropoutBlock), utterance, rule.key);
  DropoutFactors<kSize> factors;
  for (int i = 0; i < kSize; ++i) {
    const int64_t index = kSize == 1 ? element % kDropoutBlock : i;
    factors.at[i] = dropout_keeps(bits, index, rule.threshold) ? rule.factor : 0.0f;
  }
  return factors;
}

// Calls body(at, factors) for all elements of the rows of a pack in a grid of row_grid(): kSize
// elements from `at` on.
template <int kSize, class Body>
__device__ void for_each_dropped(const CudaDropout& dropout, int64_t width, Body body) {
  UtteranceCursor utterance(dropout.pack);
  for_each_row(dropout.pack.num_frames, [&](int64_t row) {
    utterance.move_to(row);
    for_each_column<kSize>(width, [&](int64_t column) {
      const int64_t element = (row - utterance.start()) * width + column;
      body(row * width + column, dropout_factors<kSize>(dropout.rule, utterance.key(), element));
    });
  });
}

}  // namespace sotto::kernels
