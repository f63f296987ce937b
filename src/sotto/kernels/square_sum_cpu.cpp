#include <cstring>
#include <numeric>

#include "sotto/kernels/cpu_kernel.h"
#include "sotto/kernels/lanes.h"
#include "sotto/kernels/square_sum.h"

namespace sotto::kernels::detail {

namespace {

using Half __attribute__((vector_size(simd::kRegisterBytes / 2))) = float;
using Wide __attribute__((vector_size(simd::kRegisterBytes))) = double;

constexpr int64_t kWideLanes = simd::kRegisterLanes / 2;
constexpr int64_t kWides = simd::kLanes / kWideLanes;

// Sixteen sums side by side, whatever the width of a register. A square of fp32 is exact in double.
struct Sums {
  Wide at[kWides] = {};

  [[gnu::always_inline]] void add_squares(const float* values) {
#pragma GCC unroll 8
    for (int64_t r = 0; r < kWides; ++r) {
      Half half;
      std::memcpy(&half, values + r * kWideLanes, sizeof(half));
      const Wide wide = __builtin_convertvector(half, Wide);
      at[r] += wide * wide;
    }
  }

  double total() const {
    double sum = 0.0;
    for (const Wide& register_sums : at) {
      for (int64_t i = 0; i < kWideLanes; ++i) sum += register_sums[i];
    }
    return sum;
  }
};

double sum_of_squares(const float* values, int64_t size) {
  Sums sums;
  int64_t i = 0;
  for (; i + simd::kLanes <= size; i += simd::kLanes) sums.add_squares(values + i);
  if (i < size) {
    float rest[simd::kLanes] = {};
    std::memcpy(rest, values + i, static_cast<size_t>(size - i) * sizeof(float));
    sums.add_squares(rest);
  }
  return sums.total();
}

}  // namespace

void square_sum_cpu(const at::Tensor& values, const at::Tensor& partial, const at::Tensor& total) {
  const float* from = values.const_data_ptr<float>();
  auto* sums = partial.mutable_data_ptr<double>();
  const int64_t size = values.numel();
  const int64_t slabs = partial.numel();
  at::parallel_for(0, slabs, 1, [&](int64_t begin, int64_t end) {
    for (int64_t slab = begin; slab < end; ++slab) {
      const int64_t first = size * slab / slabs;
      sums[slab] = sum_of_squares(from + first, size * (slab + 1) / slabs - first);
    }
  });
  *total.mutable_data_ptr<double>() += std::accumulate(sums, sums + slabs, 0.0);
}

}  // namespace sotto::kernels::detail
