// Applies a dropout mask to the rows of a pack, block by block and on all cores. Internal to the
// CPU versions of kernels with dropout.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/dropout_bits.h"
#include "sotto/kernels/simd/simd.h"

namespace sotto::kernels::detail {

// A range of elements of one utterance, counted from its first.
struct DroppedRange {
  uint64_t utterance;
  int64_t begin;
  int64_t end;
};

template <class Body>
[[gnu::always_inline]] inline void for_each_in_range(const DroppedRange& range,
                                                     const DropoutRule& rule, Body body) {
  const auto threshold = static_cast<int32_t>(rule.threshold);
  uint16_t bits[kDropoutElementsAtOnce + simd::kLanes];  // the tail is read as a whole block
  int64_t first = range.begin / kDropoutBlock * kDropoutBlock;
  for (; first < range.end; first += kDropoutElementsAtOnce) {
    fill_dropout_bits(static_cast<uint64_t>(first / kDropoutBlock), range.utterance, rule.key,
                      bits);
    const int64_t from = std::max(range.begin, first);
    const int64_t to = std::min(range.end, first + kDropoutElementsAtOnce);
    simd::for_each_block(to - from, [&](int64_t i, auto n) {
      const simd::IntLanes drawn = simd::load_unsigned(bits + (from - first) + i);
      body(from + i, simd::select<float>(drawn < threshold, 0.0f, rule.factor), n);
    });
  }
}

// Calls body(at, factors, n) for all elements of the rows of a pack: n elements from `at` on are to
// be multiplied by the factors.
template <class Body>
void for_each_dropped(const Packing& packing, int64_t width, const DropoutRule& rule, Body body) {
  constexpr int64_t kWorkPerElement = 4;
  parallel_rows(packing.num_frames(), width * kWorkPerElement, [&](int64_t begin, int64_t end) {
    auto u = static_cast<size_t>(packing.utterance_of(begin));
    for (int64_t row = begin; row < end; row = packing.starts()[++u]) {
      const int64_t start = packing.starts()[u];
      const int64_t stop = std::min(end, packing.starts()[u + 1]);
      const DroppedRange range{.utterance = fold(packing.keys()[u]),
                               .begin = (row - start) * width,
                               .end = (stop - start) * width};
      // By value: through references the compiler would read the body's pointers again after each
      // store.
      for_each_in_range(
          range, rule,
          [body, offset = start * width](int64_t element, const simd::Lanes& factors, auto n) {
            body(offset + element, factors, n);
          });
    }
  });
}

}  // namespace sotto::kernels::detail
