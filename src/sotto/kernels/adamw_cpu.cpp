#include <cmath>

#include "sotto/kernels/adamw.h"
#include "sotto/kernels/adamw_factors.h"
#include "sotto/kernels/cpu_kernel.h"
#include "sotto/kernels/simd.h"
#include "sotto/kernels/split_float.h"

namespace sotto::kernels::detail {

namespace {

using simd::Lanes;

// What a core takes at once. A range is cut at multiples of it, so that a value is in a whole
// vector or in the rest whatever the number of cores.
constexpr int64_t kBlock = 1024;

[[gnu::always_inline]] inline Lanes square_root(const Lanes& lanes) {
  float values[simd::kLanes];
  simd::store(values, lanes, simd::Full{});
  for (float& value : values) value = std::sqrt(value);
  return simd::load(values, simd::Full{});
}

struct FloatWeights {
  float* values;

  template <class Count>
  [[gnu::always_inline]] Lanes load(int64_t at, Count n) const {
    return simd::load(values + at, n);
  }
  template <class Count>
  [[gnu::always_inline]] void store(int64_t at, const Lanes& w, Count n) const {
    simd::store(values + at, w, n);
  }
};

// In bf16 with a remainder.
struct SplitWeights {
  c10::BFloat16* high;
  int16_t* low;

  static int64_t count_of(simd::Full) { return simd::kLanes; }
  static int64_t count_of(int64_t count) { return count; }

  template <class Count>
  [[gnu::always_inline]] Lanes load(int64_t at, Count n) const {
    float whole[simd::kLanes] = {};
    for (int64_t i = 0; i < count_of(n); ++i)
      whole[i] = join_float({.high = high[at + i].x, .low = low[at + i]});
    return simd::load(whole, simd::Full{});
  }
  template <class Count>
  [[gnu::always_inline]] void store(int64_t at, const Lanes& w, Count n) const {
    float whole[simd::kLanes];
    simd::store(whole, w, simd::Full{});
    for (int64_t i = 0; i < count_of(n); ++i) {
      const SplitFloat split = split_float(whole[i]);
      high[at + i].x = split.high;
      low[at + i] = split.low;
    }
  }
};

template <class Weights>
void update(const AdamW::Range& range, const Weights& weights, const AdamWFactors& f, float scale) {
  const int64_t size = range.weights.numel();
  float* first = range.first_moment.mutable_data_ptr<float>();
  float* second = range.second_moment.mutable_data_ptr<float>();
  const float* gradients = range.gradients.const_data_ptr<float>();
  const int64_t num_blocks = (size + kBlock - 1) / kBlock;
  parallel_rows(num_blocks, kBlock, [&](int64_t first_block, int64_t end_block) {
    const int64_t begin = first_block * kBlock;
    const int64_t end = std::min(size, end_block * kBlock);
    simd::for_each_block(end - begin, [&](int64_t i, auto n) {
      const int64_t at = begin + i;
      const Lanes g = simd::load(gradients + at, n) * scale;
      Lanes m = simd::load(first + at, n);
      Lanes v = simd::load(second + at, n);
      m = m + (g - m) * f.blend1;
      v = v * f.beta2 + g * g * f.blend2;
      const Lanes denominator = square_root(v) / f.root + f.epsilon;
      const Lanes w = weights.load(at, n) * f.keep - m / denominator * f.stride;
      weights.store(at, w, n);
      simd::store(first + at, m, n);
      simd::store(second + at, v, n);
    });
  });
}

}  // namespace

void adamw_cpu(const AdamW::Range& range, const AdamWFactors& factors, double square_sum) {
  const double scale = factors.scale_for(std::sqrt(square_sum));
  if (std::isnan(scale)) return;
  if (range.remainder == nullptr) {
    update(range, FloatWeights{.values = range.weights.mutable_data_ptr<float>()}, factors,
           static_cast<float>(scale));
  } else {
    update(range,
           SplitWeights{.high = range.weights.mutable_data_ptr<c10::BFloat16>(),
                        .low = range.remainder->mutable_data_ptr<int16_t>()},
           factors, static_cast<float>(scale));
  }
}

}  // namespace sotto::kernels::detail
