// The discrete Fourier transform of real signals on the CPU. Each lane of a register works on
// another signal, so that a butterfly is plain arithmetic of registers and no value crosses lanes:
// what a signal gets depends neither on its lane nor on its neighbours.
//
// The n real values are taken as n / 2 complex ones (value 2 t and value 2 t + 1), whose transform
// is a product of stages of radix 4, 2, 3, 5 and whatever other primes n / 2 has. Stages work in
// place; for that the complex values lie in another order, into which the caller writes them.
// Internal to the CPU kernels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sotto/kernels/simd/lanes.h"

namespace sotto::kernels {

// Signals that are transformed at a time: the numbers of a register.
inline constexpr int64_t kSignalsAtOnce = simd::kRegisterLanes;

// How a transform of a size is done. Cheap to make; the numbers that it needs are made once and
// the caller's to keep.
class RealFourier {
 public:
  // Transforms of `length` become transforms of `radix` times that.
  struct Stage {
    int64_t radix = 1;
    int64_t length = 1;
    // Where its turns begin in the factors.
    int64_t first_factor = 0;

    // Radices without a butterfly of their own have a table of roots behind their turns.
    bool is_general() const { return radix > 5; }
    int64_t num_factors() const;
  };

  // Of an even number of points.
  explicit RealFourier(int64_t points);

  int64_t num_points() const { return 2 * num_complex_; }
  int64_t num_complex() const { return num_complex_; }
  int64_t num_frequencies() const { return num_complex_ + 1; }
  // Numbers in the stages' turns and in those that take the complex transform apart.
  int64_t num_factors() const { return num_factors_; }

  // Sines and cosines, from double precision.
  void fill_factors(std::span<float> factors) const;
  // order[t] is the place of complex value t.
  void fill_order(std::span<int32_t> order) const;

  // The complex transform of values [num_complex(), 2, kSignalsAtOnce], real parts before imaginary
  // ones: from that order to that of the frequencies. `room` is as large as the values.
  void transform(float* values, float* room, const float* factors) const;

  // From transformed values powers [num_frequencies(), kSignalsAtOnce], four times those of the
  // real signals; a caller with a window halves it.
  void take_powers(const float* values, float* powers, const float* factors) const;

 private:
  // Where the turns of the last step are in the factors.
  int64_t first_split_factor() const { return num_factors_ - 2 * (num_complex_ / 2 + 1); }

  int64_t num_complex_;
  int64_t num_factors_ = 0;
  std::vector<Stage> stages_;
};

}  // namespace sotto::kernels
