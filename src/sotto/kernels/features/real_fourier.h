// The discrete Fourier transform of real signals on the CPU. Each lane of a register processes
// another signal, so that a butterfly is plain register arithmetic and no value crosses lanes: the
// result of a signal depends neither on its lane nor on its neighbours.
//
// The n real values are treated as n / 2 complex ones (value 2 t and value 2 t + 1), whose
// transform is a product of stages of radix 4, 2, 3, 5 and any other prime factors of n / 2. Stages
// work in place; therefore the complex values are stored in a permuted order, in which the caller
// writes them. Internal to the CPU kernels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sotto/kernels/simd/lanes.h"

namespace sotto::kernels {

// Signals that are transformed at a time: the lanes of a register.
inline constexpr int64_t kSignalsAtOnce = simd::kRegisterLanes;

// The stages of a transform of one size. Cheap to create; the constants that it needs are computed
// once and kept by the caller.
class RealFourier {
 public:
  // Combines transforms of `length` to transforms of `radix` times that length.
  struct Stage {
    int64_t radix = 1;
    int64_t length = 1;
    // Offset of its twiddle factors.
    int64_t first_factor = 0;

    // Radices without a specialised butterfly have a table of roots after their twiddle factors.
    bool is_general() const { return radix > 5; }
    int64_t num_factors() const;
  };

  // Requires an even number of points.
  explicit RealFourier(int64_t points);

  int64_t num_points() const { return 2 * num_complex_; }
  int64_t num_complex() const { return num_complex_; }
  int64_t num_frequencies() const { return num_complex_ + 1; }
  // Number of twiddle factors of the stages and of the final step for real signals.
  int64_t num_factors() const { return num_factors_; }

  // Computes sines and cosines in double precision.
  void fill_factors(std::span<float> factors) const;
  // order[t] is the position of complex value t.
  void fill_order(std::span<int32_t> order) const;

  // Complex transform of values [num_complex(), 2, kSignalsAtOnce], real parts before imaginary
  // parts: from the permuted order to that of the frequencies. `room` has the size of the values.
  void transform(float* values, float* room, const float* factors) const;

  // Computes powers [num_frequencies(), kSignalsAtOnce] from transformed values, four times those
  // of the real signals; a caller with a window compensates by halving it.
  void take_powers(const float* values, float* powers, const float* factors) const;

 private:
  // Offset of the twiddle factors of the final step.
  int64_t first_split_factor() const { return num_factors_ - 2 * (num_complex_ / 2 + 1); }

  int64_t num_complex_;
  int64_t num_factors_ = 0;
  std::vector<Stage> stages_;
};

}  // namespace sotto::kernels
