// What the device versions of AdamW get from the shared part. Internal to that kernel.
#pragma once

#include <cstdint>
#include <limits>

namespace sotto::kernels {

// The coefficients of a step as the loop needs them: worked out in double, rounded once.
struct AdamWFactors {
  float keep;
  float blend1;
  float beta2;
  float blend2;
  float root;
  float epsilon;
  float stride;
  double gradient_scale;
  double clip_norm;

  // What gradients are multiplied by, from the root of their square sum. NaN where their norm is
  // not finite: nothing may change then.
  constexpr double scale_for(double root_of_squares) const {
    const double norm = root_of_squares * gradient_scale;
    if (!(norm <= std::numeric_limits<double>::max()))
      return std::numeric_limits<double>::quiet_NaN();
    if (clip_norm > 0.0 && norm > clip_norm) return gradient_scale * (clip_norm / norm);
    return gradient_scale;
  }
};

// AdamW::Range on the device.
struct CudaAdamWRange {
  void* weights = nullptr;       // [n] fp32, or bf16 with a remainder
  int16_t* remainder = nullptr;  // [n] with bf16
  const float* gradients = nullptr;
  float* first_moment = nullptr;
  float* second_moment = nullptr;
  int64_t size = 0;  // n
};

}  // namespace sotto::kernels
