// Transposes rows of memory to lanes and back: four columns of as many rows as a register has lanes
// become four registers with one row per lane. Internal to the CPU kernels.
#pragma once

#include <cstring>
#include <utility>

#include "sotto/kernels/simd/lanes.h"

namespace sotto::kernels::simd {

// Four numbers: the unit of shuffles that do not cross the halves of a long register.
using Quad __attribute__((vector_size(16))) = float;
inline constexpr int64_t kQuad = 4;

namespace detail {

using Register = Lanes::Register;

// Interleaves numbers kFirst and kFirst + 1 of each quad of both registers.
template <size_t kFirst, size_t... kIndices>
[[gnu::always_inline]] inline Register in_turn(Register a, Register b,
                                               std::index_sequence<kIndices...>) {
  return __builtin_shufflevector(
      a, b, (kIndices % 2 * kRegisterLanes + kIndices / 4 * 4 + kFirst + kIndices % 4 / 2)...);
}

// Numbers kFirst and kFirst + 1 of each quad, those of a followed by those of b.
template <size_t kFirst, size_t... kIndices>
[[gnu::always_inline]] inline Register side_by_side(Register a, Register b,
                                                    std::index_sequence<kIndices...>) {
  return __builtin_shufflevector(
      a, b, (kIndices % 4 / 2 * kRegisterLanes + kIndices / 4 * 4 + kFirst + kIndices % 2)...);
}

// Loads four numbers from each of the rows of a register, which are four apart: one row or two.
template <size_t... kIndices>
[[gnu::always_inline]] inline Register load_quads(const float* const* rows, int64_t column,
                                                  std::index_sequence<kIndices...>) {
  static_assert(kRegisterLanes <= 2 * kQuad);
  Quad first, last;
  std::memcpy(&first, rows[0] + column, sizeof(first));
  std::memcpy(&last, rows[kRegisterLanes - kQuad] + column, sizeof(last));
  return __builtin_shufflevector(first, last, kIndices...);
}

}  // namespace detail

// Transposes the 4 x 4 matrix of each quad of four registers.
[[gnu::always_inline]] inline void transpose_quads(Lanes::Register (&x)[kQuad]) {
  const auto indices = std::make_index_sequence<kRegisterLanes>();
  const auto low01 = detail::in_turn<0>(x[0], x[1], indices);
  const auto low23 = detail::in_turn<0>(x[2], x[3], indices);
  const auto high01 = detail::in_turn<2>(x[0], x[1], indices);
  const auto high23 = detail::in_turn<2>(x[2], x[3], indices);
  x[0] = detail::side_by_side<0>(low01, low23, indices);
  x[1] = detail::side_by_side<2>(low01, low23, indices);
  x[2] = detail::side_by_side<0>(high01, high23, indices);
  x[3] = detail::side_by_side<2>(high01, high23, indices);
}

// x[i] has column + i of row l in lane l.
[[gnu::always_inline]] inline void load_columns(Lanes::Register (&x)[kQuad],
                                                const float* const (&rows)[kRegisterLanes],
                                                int64_t column) {
#pragma GCC unroll 4
  for (int64_t r = 0; r < kQuad; ++r)
    x[r] = detail::load_quads(rows + r, column, std::make_index_sequence<kRegisterLanes>());
  transpose_quads(x);
}

// Stores columns into the first num_rows rows, which are `width` apart.
[[gnu::always_inline]] inline void store_columns(float* to, int64_t width, int64_t num_rows,
                                                 Lanes::Register (&x)[kQuad]) {
  transpose_quads(x);
#pragma GCC unroll 4
  for (int64_t r = 0; r < kQuad; ++r) {
    const auto* quads = reinterpret_cast<const Quad*>(&x[r]);
    for (int64_t row = r; row < kRegisterLanes; row += kQuad, ++quads) {
      if (row < num_rows) std::memcpy(to + row * width, quads, sizeof(Quad));
    }
  }
}

}  // namespace sotto::kernels::simd
