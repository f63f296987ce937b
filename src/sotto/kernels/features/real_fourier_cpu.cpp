// Stages of butterflies on registers. N complex values, R radix, L length of the parts.
#include <cstring>

#include "sotto/kernels/features/real_fourier.h"

namespace sotto::kernels {

namespace {

using Register = simd::Lanes::Register;

struct Complex {
  Register re, im;

  [[gnu::always_inline]] friend Complex operator+(const Complex& a, const Complex& b) {
    return {a.re + b.re, a.im + b.im};
  }
  [[gnu::always_inline]] friend Complex operator-(const Complex& a, const Complex& b) {
    return {a.re - b.re, a.im - b.im};
  }
  [[gnu::always_inline]] friend Complex operator*(float a, const Complex& b) {
    return {a * b.re, a * b.im};
  }
  // Return a - i b and a + i b.
  [[gnu::always_inline]] static Complex minus_i(const Complex& a, const Complex& b) {
    return {a.re + b.im, a.im - b.re};
  }
  [[gnu::always_inline]] static Complex plus_i(const Complex& a, const Complex& b) {
    return {a.re - b.im, a.im + b.re};
  }
};

constexpr int64_t kComplex = 2 * kSignalsAtOnce;

[[gnu::always_inline]] inline Complex load(const float* from) {
  Complex value;
  std::memcpy(&value.re, from, sizeof(value.re));
  std::memcpy(&value.im, from + kSignalsAtOnce, sizeof(value.im));
  return value;
}

[[gnu::always_inline]] inline void store(float* to, const Complex& value) {
  std::memcpy(to, &value.re, sizeof(value.re));
  std::memcpy(to + kSignalsAtOnce, &value.im, sizeof(value.im));
}

[[gnu::always_inline]] inline Complex turned(const Complex& a, const float* turn) {
  return {a.re * turn[0] - a.im * turn[1], a.re * turn[1] + a.im * turn[0]};
}

// --- transforms of few values, in place

[[gnu::always_inline]] inline void butterfly(Complex (&x)[2]) {
  const Complex difference = x[0] - x[1];
  x[0] = x[0] + x[1];
  x[1] = difference;
}

[[gnu::always_inline]] inline void butterfly(Complex (&x)[3]) {
  constexpr float kSine = 0.866025403784438647f;  // of a third of a turn
  const Complex sum = x[1] + x[2];
  const Complex side = kSine * (x[1] - x[2]);
  const Complex middle = x[0] - 0.5f * sum;
  x[0] = x[0] + sum;
  x[1] = Complex::minus_i(middle, side);
  x[2] = Complex::plus_i(middle, side);
}

[[gnu::always_inline]] inline void butterfly(Complex (&x)[4]) {
  const Complex even = x[0] + x[2];
  const Complex even_difference = x[0] - x[2];
  const Complex odd = x[1] + x[3];
  const Complex odd_difference = x[1] - x[3];
  x[0] = even + odd;
  x[1] = Complex::minus_i(even_difference, odd_difference);
  x[2] = even - odd;
  x[3] = Complex::plus_i(even_difference, odd_difference);
}

[[gnu::always_inline]] inline void butterfly(Complex (&x)[5]) {
  // Cosines and sines of one and two fifths of a turn.
  constexpr float kCosine1 = 0.309016994374947424f, kCosine2 = -0.809016994374947424f;
  constexpr float kSine1 = 0.951056516295153572f, kSine2 = 0.587785252292473129f;
  const Complex sum1 = x[1] + x[4];
  const Complex sum2 = x[2] + x[3];
  const Complex difference1 = x[1] - x[4];
  const Complex difference2 = x[2] - x[3];
  const Complex middle1 = x[0] + kCosine1 * sum1 + kCosine2 * sum2;
  const Complex middle2 = x[0] + kCosine2 * sum1 + kCosine1 * sum2;
  const Complex side1 = kSine1 * difference1 + kSine2 * difference2;
  const Complex side2 = kSine2 * difference1 - kSine1 * difference2;
  x[0] = x[0] + sum1 + sum2;
  x[1] = Complex::minus_i(middle1, side1);
  x[2] = Complex::minus_i(middle2, side2);
  x[3] = Complex::plus_i(middle2, side2);
  x[4] = Complex::plus_i(middle1, side1);
}

// --- stages

// Combines values at distance `step`, all but the first multiplied by a twiddle factor.
template <int64_t kRadix, bool kTurns>
[[gnu::always_inline]] inline void combine(float* values, int64_t step, const float* turns) {
  Complex x[kRadix];
  x[0] = load(values);
#pragma GCC unroll 8
  for (int64_t j = 1; j < kRadix; ++j) {
    x[j] = load(values + j * step);
    if constexpr (kTurns) x[j] = turned(x[j], turns + 2 * (j - 1));
  }
  butterfly(x);
#pragma GCC unroll 8
  for (int64_t j = 0; j < kRadix; ++j) store(values + j * step, x[j]);
}

struct StageData {
  float* values = nullptr;  // [N, 2, kSignalsAtOnce]
  int64_t num_values = 0;
  const float* turns = nullptr;  // [L, R - 1, 2]
  int64_t length = 1;
};

template <int64_t kRadix>
void run_stage(const StageData& stage) {
  const int64_t step = stage.length * kComplex;
  for (float* part = stage.values; part < stage.values + stage.num_values * kComplex;
       part += kRadix * step) {
    combine<kRadix, false>(part, step, nullptr);
    for (int64_t k = 1; k < stage.length; ++k)
      combine<kRadix, true>(part + k * kComplex, step, stage.turns + 2 * (kRadix - 1) * k);
  }
}

// Any radix, by definition. `room` holds the multiplied values.
void run_general_stage(const StageData& stage, int64_t radix, float* room) {
  const float* roots = stage.turns + 2 * (radix - 1) * stage.length;
  for (int64_t first = 0; first < stage.num_values; first += radix * stage.length) {
    for (int64_t k = 0; k < stage.length; ++k) {
      const auto at = [&](int64_t j) {
        return stage.values + (first + j * stage.length + k) * kComplex;
      };
      const float* turns = stage.turns + 2 * (radix - 1) * k;
      store(room, load(at(0)));
      for (int64_t j = 1; j < radix; ++j)
        store(room + j * kComplex, turned(load(at(j)), turns + 2 * (j - 1)));
      for (int64_t q = 0; q < radix; ++q) {
        Complex sum = load(room);
        int64_t turn = 0;
        for (int64_t j = 1; j < radix; ++j) {
          turn += turn + q < radix ? q : q - radix;
          sum = sum + turned(load(room + j * kComplex), roots + 2 * turn);
        }
        store(at(q), sum);
      }
    }
  }
}

}  // namespace

void RealFourier::transform(float* values, float* room, const float* factors) const {
  for (const Stage& stage : stages_) {
    const StageData data{.values = values,
                         .num_values = num_complex_,
                         .turns = factors + stage.first_factor,
                         .length = stage.length};
    switch (stage.radix) {
      case 2: run_stage<2>(data); break;
      case 3: run_stage<3>(data); break;
      case 4: run_stage<4>(data); break;
      case 5: run_stage<5>(data); break;
      default: run_general_stage(data, stage.radix, room);
    }
  }
}

// The transform Z of even values plus i times odd ones is E + i O with E and O the transforms of
// real signals, E[k] = (Z[k] + conj Z[N - k]) / 2. Frequency k of all is E[k] + turn[k] O[k], and
// frequency N - k is the conjugate of E[k] - turn[k] O[k].
void RealFourier::take_powers(const float* values, float* powers, const float* factors) const {
  const float* turns = factors + first_split_factor();
  const auto store_power = [&](int64_t frequency, const Complex& value) {
    const Register power = value.re * value.re + value.im * value.im;
    std::memcpy(powers + frequency * kSignalsAtOnce, &power, sizeof(power));
  };
  for (int64_t k = 0; k <= num_complex_ / 2; ++k) {
    const Complex low = load(values + k * kComplex);
    const Complex high = load(values + (k == 0 ? 0 : num_complex_ - k) * kComplex);
    const Complex even{low.re + high.re, low.im - high.im};
    const Complex odd{low.im + high.im, high.re - low.re};
    const Complex turned_odd = turned(odd, turns + 2 * k);
    store_power(k, even + turned_odd);
    store_power(num_complex_ - k, even - turned_odd);
  }
}

}  // namespace sotto::kernels
