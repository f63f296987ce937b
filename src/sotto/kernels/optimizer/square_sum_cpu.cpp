#include <cstring>
#include <numeric>

#include "sotto/kernels/optimizer/square_sum.h"
#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/lanes.h"

namespace sotto::kernels::detail {

namespace {

using Half __attribute__((vector_size(simd::kRegisterBytes / 2))) = float;
using Wide __attribute__((vector_size(simd::kRegisterBytes))) = double;

constexpr int64_t kWideLanes = simd::kRegisterLanes / 2;
constexpr int64_t kWides = simd::kLanes / kWideLanes;

// Sixteen sums side by side, independent of the register width. A square of fp32 is exact in
// double.
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

template <class T>
double sum_of_squares(const T* values, int64_t size) {
  Sums sums;
  simd::for_each_block(size, [&](int64_t i, auto n) {
    float block[simd::kLanes];
    simd::store(block, simd::load(values + i, n), simd::Full{});
    sums.add_squares(block);
  });
  return sums.total();
}

}  // namespace

void square_sum_cpu(const at::Tensor& values, const at::Tensor& partial, const at::Tensor& total) {
  auto* sums = partial.mutable_data_ptr<double>();
  const int64_t size = values.numel();
  const int64_t slabs = partial.numel();
  with_element_type(values, [&](auto zero) {
    const auto* from = values.const_data_ptr<decltype(zero)>();
    at::parallel_for(0, slabs, 1, [&](int64_t begin, int64_t end) {
      for (int64_t slab = begin; slab < end; ++slab) {
        const int64_t first = size * slab / slabs;
        sums[slab] = sum_of_squares(from + first, size * (slab + 1) / slabs - first);
      }
    });
  });
  *total.mutable_data_ptr<double>() += std::accumulate(sums, sums + slabs, 0.0);
}

}  // namespace sotto::kernels::detail
