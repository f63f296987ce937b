// Arguments of the device versions of AdamW. Internal to that kernel.
#pragma once

#include <cstdint>
#include <limits>

#include "sotto/core/philox.h"
#include "sotto/kernels/base/element_type.h"

namespace sotto::kernels {

// The coefficients of a step in the form the loop needs: computed in double, rounded once.
struct AdamWFactors {
  float keep;
  float blend1;
  float beta2;
  float blend2;
  float inverse_root;
  float epsilon;
  float stride;
  double gradient_scale;
  double clip_norm;
  // Key of stochastic rounding.
  PhiloxKey rounding;

  // Returns the factor of the gradients, from the root of their square sum. NaN if their norm is
  // not finite: nothing may change then.
  constexpr double scale_for(double root_of_squares) const {
    const double norm = root_of_squares * gradient_scale;
    if (!(norm <= std::numeric_limits<double>::max()))
      return std::numeric_limits<double>::quiet_NaN();
    if (clip_norm > 0.0 && norm > clip_norm) return gradient_scale * (clip_norm / norm);
    return gradient_scale;
  }

  // The step of one value, or of many side by side: its scaled gradient, its moments and its
  // weight. The result has the same bits on every device and in every format: products and sums are
  // fused only through Math, because compilers would fuse them arbitrarily, and Math's roots and
  // inverses are correctly rounded. A gradient is limited so that its square is finite: infinity
  // would stay in the second moment forever. Roots are at least 2^-50: a device can then compute
  // them exactly in few instructions, and the number that is inverted is normal.
  template <class Math, class Number>
  [[gnu::always_inline]] constexpr void step(const Number& gradient, Number& m, Number& v,
                                             Number& w) const {
    const Number g = Math::within(gradient, 0x1p62f);
    m = Math::multiply_add(g - m, blend1, m);
    v = Math::multiply_add(g * g, blend2, v * beta2);
    const Number root = Math::square_root(Math::at_least(v, 0x1p-100f));
    const Number stretch = Math::inverse(Math::multiply_add(root, inverse_root, epsilon));
    w = Math::multiply_add(m * stretch, -stride, w * keep);
  }
};

// AdamW::Range on the device.
struct CudaAdamWRange {
  void* weights = nullptr;
  ElementType weight_type = ElementType::kFloat;
  void* remainder = nullptr;
  int remainder_bits = 0;
  const void* gradients = nullptr;
  ElementType gradient_type = ElementType::kFloat;
  void* first_moment = nullptr;
  void* second_moment = nullptr;
  float* first_scales = nullptr;  // null with fp32 moments
  float* second_scales = nullptr;
  int64_t first_value = 0;
  int64_t size = 0;  // n
};

}  // namespace sotto::kernels
