#include "sotto/kernels/simd/tile_product.h"

#include <type_traits>

#include "sotto/kernels/simd/simd.h"

namespace sotto::kernels {

namespace {

enum class Left { kAsIs, kTransposed };

template <int64_t kRows, Left kLeft, bool kAdd>
void multiply_block(const Matrix& c, const Matrix& a, const Matrix& b, int64_t inner) {
  const int64_t row_step = kLeft == Left::kAsIs ? a.stride : 1;
  const int64_t inner_step = kLeft == Left::kAsIs ? 1 : a.stride;
  simd::Lanes sums[kRows];
#pragma GCC unroll 6
  for (int64_t r = 0; r < kRows; ++r) {
    sums[r] = simd::Lanes{};
    if constexpr (kAdd) sums[r] = simd::load(c.row(r), simd::Full{});
  }
  const float* left = a.at;
  const float* right = b.at;
  for (int64_t k = 0; k < inner; ++k, left += inner_step, right += b.stride) {
    const simd::Lanes block = simd::load(right, simd::Full{});
#pragma GCC unroll 6
    for (int64_t r = 0; r < kRows; ++r) sums[r] += left[r * row_step] * block;
  }
#pragma GCC unroll 6
  for (int64_t r = 0; r < kRows; ++r) simd::store(c.row(r), sums[r], simd::Full{});
}

template <Left kLeft, bool kAdd>
void multiply(const Matrix& c, const Matrix& a, const Matrix& b, const Extent& extent) {
  // With a block of b and an element of a, six rows take 15 of AVX2's 16 registers.
  constexpr int64_t kRowsAtOnce = 6;
  for (int64_t column = 0; column < extent.columns; column += simd::kLanes) {
    int64_t row = 0;
    const auto run = [&](auto num_rows) {
      const Matrix left{a.at + row * (kLeft == Left::kAsIs ? a.stride : 1), a.stride};
      multiply_block<num_rows(), kLeft, kAdd>({c.row(row) + column, c.stride}, left,
                                              {b.at + column, b.stride}, extent.inner);
      row += num_rows();
    };
    while (row + kRowsAtOnce <= extent.rows) run(std::integral_constant<int64_t, kRowsAtOnce>());
    if (row + 4 <= extent.rows) run(std::integral_constant<int64_t, 4>());
    if (row + 2 <= extent.rows) run(std::integral_constant<int64_t, 2>());
    if (row < extent.rows) run(std::integral_constant<int64_t, 1>());
  }
}

}  // namespace

const TileProduct& TileProduct::portable() {
  static constexpr TileProduct kProduct{.assign = multiply<Left::kAsIs, false>,
                                        .add = multiply<Left::kAsIs, true>,
                                        .add_transposed = multiply<Left::kTransposed, true>};
  return kProduct;
}

}  // namespace sotto::kernels
