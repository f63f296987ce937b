#include "sotto/kernels/features/real_fourier.h"

#include <cmath>
#include <numbers>

#include "sotto/core/error.h"

namespace sotto::kernels {

namespace {

// Returns the prime factors, pairs of twos as fours. Fours first: the first stage needs no twiddle
// factors.
std::vector<int64_t> radices_of(int64_t size) {
  std::vector<int64_t> radices;
  const auto take = [&](int64_t radix) {
    for (; size % radix == 0; size /= radix) radices.push_back(radix);
  };
  for (const int64_t radix : {4, 2, 3, 5}) take(radix);
  for (int64_t radix = 7; size > 1; radix += 2) {
    if (radix * radix > size) radix = size;
    take(radix);
  }
  return radices;
}

// Writes exp(-2 pi i turn / size) at `at` and the following position.
void write_turn(std::span<float> factors, int64_t at, int64_t turn, int64_t size) {
  // The remainder keeps the angle small and its cosine exact to the last digit.
  const double angle =
      2.0 * std::numbers::pi * static_cast<double>(turn % size) / static_cast<double>(size);
  factors[static_cast<size_t>(at)] = static_cast<float>(std::cos(angle));
  factors[static_cast<size_t>(at) + 1] = static_cast<float>(-std::sin(angle));
}

}  // namespace

int64_t RealFourier::Stage::num_factors() const {
  return 2 * ((radix - 1) * length + (is_general() ? radix : 0));
}

RealFourier::RealFourier(int64_t points) : num_complex_(points / 2) {
  SOTTO_ASSERT(points >= 2 && points % 2 == 0, "a Fourier transform of {} points", points);
  int64_t length = 1;
  for (const int64_t radix : radices_of(num_complex_)) {
    stages_.push_back({.radix = radix, .length = length, .first_factor = num_factors_});
    num_factors_ += stages_.back().num_factors();
    length *= radix;
  }
  num_factors_ += 2 * (num_complex_ / 2 + 1);
}

void RealFourier::fill_factors(std::span<float> factors) const {
  for (const Stage& stage : stages_) {
    int64_t at = stage.first_factor;
    for (int64_t k = 0; k < stage.length; ++k) {
      for (int64_t j = 1; j < stage.radix; ++j, at += 2)
        write_turn(factors, at, j * k, stage.radix * stage.length);
    }
    for (int64_t root = 0; stage.is_general() && root < stage.radix; ++root, at += 2)
      write_turn(factors, at, root, stage.radix);
  }
  for (int64_t k = 0; k <= num_complex_ / 2; ++k)
    write_turn(factors, first_split_factor() + 2 * k, k, num_points());
}

void RealFourier::fill_order(std::span<int32_t> order) const {
  // The parts of a stage are every radix-th value of its result; the last stage produces all.
  for (int64_t t = 0; t < num_complex_; ++t) {
    int64_t rest = t;
    int64_t index = 0;
    for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
      index += rest % stage->radix * stage->length;
      rest /= stage->radix;
    }
    order[static_cast<size_t>(t)] = static_cast<int32_t>(index);
  }
}

}  // namespace sotto::kernels
