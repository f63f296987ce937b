#include <cmath>

#include "sotto/kernels/adamw.h"
#include "sotto/kernels/cpu_kernel.h"
#include "sotto/kernels/simd.h"

namespace sotto::kernels::detail {

namespace {

// What a core takes at once. A range is cut at multiples of it, so that a value is in a whole
// vector or in the rest whatever the number of cores.
constexpr int64_t kBlock = 1024;

// The coefficients of a step as the loop needs them: worked out in double, rounded once.
struct Factors {
  explicit Factors(const AdamW::Coefficients& c)
      : scale(static_cast<float>(c.gradient_scale)),
        keep(static_cast<float>(1.0 - c.rate * c.weight_decay)),
        blend1(static_cast<float>(1.0 - c.beta1)),
        beta2(static_cast<float>(c.beta2)),
        blend2(static_cast<float>(1.0 - c.beta2)),
        root(static_cast<float>(std::sqrt(1.0 - std::pow(c.beta2, static_cast<double>(c.step))))),
        epsilon(static_cast<float>(c.epsilon)),
        stride(
            static_cast<float>(c.rate / (1.0 - std::pow(c.beta1, static_cast<double>(c.step))))) {}

  float scale;
  float keep;
  float blend1;
  float beta2;
  float blend2;
  float root;
  float epsilon;
  float stride;
};

[[gnu::always_inline]] inline simd::Lanes square_root(const simd::Lanes& lanes) {
  float values[simd::kLanes];
  simd::store(values, lanes, simd::Full{});
  for (float& value : values) value = std::sqrt(value);
  return simd::load(values, simd::Full{});
}

}  // namespace

void adamw_cpu(const AdamW::Range& range, const AdamW::Coefficients& coefficients) {
  const Factors f(coefficients);
  const int64_t size = range.weights.numel();
  float* weights = range.weights.mutable_data_ptr<float>();
  float* first = range.first_moment.mutable_data_ptr<float>();
  float* second = range.second_moment.mutable_data_ptr<float>();
  const float* gradients = range.gradients.const_data_ptr<float>();
  const int64_t num_blocks = (size + kBlock - 1) / kBlock;
  parallel_rows(num_blocks, kBlock, [&](int64_t first_block, int64_t end_block) {
    const int64_t begin = first_block * kBlock;
    const int64_t end = std::min(size, end_block * kBlock);
    simd::for_each_block(end - begin, [&](int64_t i, auto n) {
      const int64_t at = begin + i;
      const simd::Lanes g = simd::load(gradients + at, n) * f.scale;
      simd::Lanes m = simd::load(first + at, n);
      simd::Lanes v = simd::load(second + at, n);
      m = m + (g - m) * f.blend1;
      v = v * f.beta2 + g * g * f.blend2;
      const simd::Lanes denominator = square_root(v) / f.root + f.epsilon;
      const simd::Lanes w = simd::load(weights + at, n) * f.keep - m / denominator * f.stride;
      simd::store(weights + at, w, n);
      simd::store(first + at, m, n);
      simd::store(second + at, v, n);
    });
  });
}

}  // namespace sotto::kernels::detail
