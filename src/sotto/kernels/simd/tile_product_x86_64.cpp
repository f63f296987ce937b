// Implementation with AVX-512, whose registers are twice as long and twice as many as those that
// simd.h is compiled for. Selected at run time: the kernels have to run on CPUs without it.
#include <immintrin.h>

#include <type_traits>

#include "sotto/device/cpu_features.h"
#include "sotto/kernels/simd/tile_product.h"

namespace sotto::kernels {

namespace {

enum class Left { kAsIs, kTransposed };

constexpr int64_t kLanes = 16;

// Computes kRows rows of kBlocks blocks of columns.
template <int64_t kRows, int64_t kBlocks, Left kLeft, bool kAdd>
[[gnu::target("avx512f")]] void multiply_block(const Matrix& c, const Matrix& a, const Matrix& b,
                                               int64_t inner) {
  const int64_t row_step = kLeft == Left::kAsIs ? a.stride : 1;
  const int64_t inner_step = kLeft == Left::kAsIs ? 1 : a.stride;
  __m512 sums[kRows][kBlocks];
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int64_t i = 0; i < kBlocks; ++i) {
      sums[r][i] = kAdd ? _mm512_loadu_ps(c.row(r) + i * kLanes) : _mm512_setzero_ps();
    }
  }
  const float* left = a.at;
  const float* right = b.at;
  for (int64_t k = 0; k < inner; ++k, left += inner_step, right += b.stride) {
    __m512 blocks[kBlocks];
#pragma GCC unroll 4
    for (int64_t i = 0; i < kBlocks; ++i) blocks[i] = _mm512_loadu_ps(right + i * kLanes);
#pragma GCC unroll 8
    for (int64_t r = 0; r < kRows; ++r) {
      const __m512 element = _mm512_set1_ps(left[r * row_step]);
#pragma GCC unroll 4
      for (int64_t i = 0; i < kBlocks; ++i) {
        sums[r][i] = _mm512_fmadd_ps(element, blocks[i], sums[r][i]);
      }
    }
  }
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int64_t i = 0; i < kBlocks; ++i) _mm512_storeu_ps(c.row(r) + i * kLanes, sums[r][i]);
  }
}

// Computes all rows of kBlocks blocks of columns.
template <int64_t kBlocks, Left kLeft, bool kAdd>
void multiply_blocks(const Matrix& c, const Matrix& a, const Matrix& b, const Extent& extent) {
  // With the blocks of b these take at most 28 of 32 registers.
  constexpr int64_t kRowsAtOnce = kBlocks == 4 ? 6 : 8;
  int64_t row = 0;
  const auto run = [&](auto num_rows) {
    const Matrix left{a.at + row * (kLeft == Left::kAsIs ? a.stride : 1), a.stride};
    multiply_block<num_rows(), kBlocks, kLeft, kAdd>({c.row(row), c.stride}, left, b, extent.inner);
    row += num_rows();
  };
  while (row + kRowsAtOnce <= extent.rows) run(std::integral_constant<int64_t, kRowsAtOnce>());
  if (row + 4 <= extent.rows) run(std::integral_constant<int64_t, 4>());
  if (row + 2 <= extent.rows) run(std::integral_constant<int64_t, 2>());
  if (row < extent.rows) run(std::integral_constant<int64_t, 1>());
}

template <Left kLeft, bool kAdd>
void multiply(const Matrix& c, const Matrix& a, const Matrix& b, const Extent& extent) {
  int64_t column = 0;
  const auto run = [&](auto num_blocks) {
    multiply_blocks<num_blocks(), kLeft, kAdd>({c.at + column, c.stride}, a,
                                               {b.at + column, b.stride}, extent);
    column += num_blocks() * kLanes;
  };
  const int64_t end = (extent.columns + kLanes - 1) / kLanes * kLanes;
  while (column + 4 * kLanes <= end) run(std::integral_constant<int64_t, 4>());
  if (column + 2 * kLanes <= end) run(std::integral_constant<int64_t, 2>());
  if (column < end) run(std::integral_constant<int64_t, 1>());
}

}  // namespace

const TileProduct& TileProduct::best() {
  static constexpr TileProduct kProduct{.assign = multiply<Left::kAsIs, false>,
                                        .add = multiply<Left::kAsIs, true>,
                                        .add_transposed = multiply<Left::kTransposed, true>};
  return device::cpu_features().avx512 ? kProduct : portable();
}

}  // namespace sotto::kernels
