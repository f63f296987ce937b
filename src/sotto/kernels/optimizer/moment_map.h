// The values of an 8-bit moment, relative to the largest of its block: the dynamic map of Dettmers
// et al., "8-bit Optimizers via Block-wise Quantization", section 2.1, with the decades and the
// block size of bitsandbytes. constexpr, so that CUDA kernels have the same tables and functions.
//
// Seven decades, 1e-6 to 1: each is divided into equal parts whose midpoints are the values, twice
// as many as in the decade below. 0 and 1 are added. The map of the first moment is signed and has
// one value in its lowest decade, that of the second is unsigned and has two.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace sotto::kernels {

// Number of values with a common scale.
inline constexpr int64_t kMomentBlock = 256;

// Returns the number of scales of `num_values` values.
constexpr int64_t num_moment_blocks(int64_t num_values) {
  return (num_values + kMomentBlock - 1) / kMomentBlock;
}

// The code of 0 in the signed map; in the other it is 0.
inline constexpr int32_t kSignedZero = 127;

// The rank of a share among the magnitudes of a map, 0 being that of 0: a table with an entry for
// each cell of the fp32 numbers from 2^-23 to 1, where a cell is all numbers that agree in their
// upper sixteen bits. With 128 cells per power of two no cell holds two boundaries between ranks.
// An entry is the number to add to the bits of a share so that its rank is in the upper half:
// numbers above the cell's boundary carry into it.
inline constexpr float kSmallestShare = 0x1p-23f;
inline constexpr uint32_t kFirstCellBits = std::bit_cast<uint32_t>(kSmallestShare);
inline constexpr uint32_t kLastCellBits = 127u << 23;  // 1
inline constexpr size_t kNumMomentCells = ((kLastCellBits - kFirstCellBits) >> 16) + 1;

// Magnitudes in equal steps: base + k * step for k from 0 on, up to `last`. Eight of these runs
// make up a map except for the 1: that of 0 alone, and the seven decades.
struct MomentRuns {
  std::array<float, 8> base = {};
  std::array<float, 8> step = {};
  std::array<float, 8> last = {};
  std::array<float, 8> first_rank = {};

  // Returns the magnitude of a rank. Both operations round, so that the value is the same wherever
  // it is computed.
  constexpr float magnitude(int32_t rank) const {
    size_t run = 7;
    while (static_cast<float>(rank) < first_rank[run]) --run;
    const float k = static_cast<float>(rank) - first_rank[run];
    if (k > last[run]) return 1.0f;
    const float steps = k * step[run];
    return steps + base[run];
  }
};

struct MomentMap {
  MomentRuns runs = {};
  std::array<float, 256> values = {};                // by code
  std::array<uint32_t, kNumMomentCells> cells = {};  // to add to the bits of a share
};

namespace moment_map_detail {

constexpr MomentRuns runs_of(int in_lowest_decade) {
  MomentRuns runs;
  double decade = 1e6;  // inverse of its upper end
  int rank = 1;
  int parts = in_lowest_decade;
  for (size_t run = 1; run < 8; ++run, parts *= 2, decade /= 10.0) {
    runs.base[run] = static_cast<float>((0.1 + 0.45 / parts) / decade);
    runs.step[run] = static_cast<float>(0.9 / parts / decade);
    runs.last[run] = static_cast<float>(parts - 1);
    runs.first_rank[run] = static_cast<float>(rank);
    rank += parts;
  }
  return runs;
}

// Magnitudes in ascending order, from 0 to 1.
struct Magnitudes {
  std::array<float, 256> at = {};
  size_t count = 0;
};

constexpr Magnitudes magnitudes_of(const MomentRuns& runs) {
  Magnitudes result;
  while (result.count == 0 || result.at[result.count - 1] < 1.0f) {
    result.at[result.count] = runs.magnitude(static_cast<int32_t>(result.count));
    ++result.count;
  }
  return result;
}

// Returns the largest fp32 number that is not above the midpoint of two.
constexpr uint32_t middle_bits(float a, float b) {
  const double middle = (static_cast<double>(a) + static_cast<double>(b)) / 2.0;
  const auto nearest = static_cast<float>(middle);
  const auto bits = std::bit_cast<uint32_t>(nearest);
  return static_cast<double>(nearest) > middle ? bits - 1 : bits;
}

constexpr std::array<uint32_t, kNumMomentCells> cells_of(const Magnitudes& magnitudes) {
  std::array<uint32_t, kNumMomentCells> cells = {};
  uint32_t rank = 0;
  uint32_t limit = middle_bits(magnitudes.at[0], magnitudes.at[1]);
  for (size_t cell = 0; cell < kNumMomentCells; ++cell) {
    const uint32_t first = kFirstCellBits + (static_cast<uint32_t>(cell) << 16);
    const bool is_here = rank + 1 < magnitudes.count && limit >> 16 == first >> 16;
    const uint32_t above_limit = is_here ? 0xffffu - (limit & 0xffffu) : 0u;
    cells[cell] = (rank << 16) + above_limit - first;
    if (!is_here) continue;
    ++rank;
    if (rank + 1 < magnitudes.count)
      limit = middle_bits(magnitudes.at[rank], magnitudes.at[rank + 1]);
  }
  return cells;
}

constexpr MomentMap signed_map() {
  const MomentRuns runs = runs_of(1);
  const Magnitudes magnitudes = magnitudes_of(runs);
  MomentMap map{.runs = runs, .cells = cells_of(magnitudes)};
  for (size_t rank = 0; rank < magnitudes.count; ++rank) {
    map.values[kSignedZero + rank] = magnitudes.at[rank];
    // There is no -1.
    if (rank > 0 && rank <= kSignedZero) map.values[kSignedZero - rank] = -magnitudes.at[rank];
  }
  return map;
}

constexpr MomentMap unsigned_map() {
  const MomentRuns runs = runs_of(2);
  const Magnitudes magnitudes = magnitudes_of(runs);
  return {.runs = runs, .values = magnitudes.at, .cells = cells_of(magnitudes)};
}

}  // namespace moment_map_detail

// Maps of the first and of the second moment.
inline constexpr MomentMap kSignedMoments = moment_map_detail::signed_map();
inline constexpr MomentMap kUnsignedMoments = moment_map_detail::unsigned_map();

// Factor that converts a block's values to shares of their largest. A block whose largest value is
// too small or too large to have an inverse is treated as zeros.
constexpr bool has_inverse(float largest) {
  return largest >= 0x1p-126f && largest <= 0x1p126f;
}
constexpr float inverse_scale(float largest) {
  return has_inverse(largest) ? 1.0f / largest : 0.0f;
}

// Returns the rank of a share by its magnitude, which is at most 1, possibly exceeded by rounding:
// then it is still in the last cell.
constexpr uint32_t rank_in(const uint32_t* cells, float magnitude) {
  const auto bits =
      std::bit_cast<uint32_t>(magnitude > kSmallestShare ? magnitude : kSmallestShare);
  return (cells[(bits - kFirstCellBits) >> 16] + bits) >> 16;
}

// Returns the code of the number nearest to a share of -1 to 1; for ties the one nearer to 0.
constexpr uint8_t signed_code(const uint32_t* cells, float share) {
  const auto bits = std::bit_cast<uint32_t>(share);
  const auto magnitude = std::bit_cast<float>(bits & 0x7fffffffu);
  const auto rank = static_cast<int32_t>(rank_in(cells, magnitude));
  if ((bits >> 31) == 0) return static_cast<uint8_t>(kSignedZero + rank);
  return static_cast<uint8_t>(rank > kSignedZero ? 0 : kSignedZero - rank);
}

// Returns the code of a share of 0 to 1 in the unsigned map. A positive share never becomes 0: with
// a second moment of 0 and a first moment that is not, a step would be divided by epsilon alone.
constexpr uint8_t unsigned_code(const uint32_t* cells, float share) {
  const uint32_t rank = rank_in(cells, share);
  return static_cast<uint8_t>(rank == 0 && share > 0.0f ? 1u : rank);
}

}  // namespace sotto::kernels
