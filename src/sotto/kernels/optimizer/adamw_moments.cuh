// The formats of moments of AdamW on CUDA, and the arithmetic of a step. Internal to that kernel.
#pragma once

#include <cstdint>
#include <nv/target>

#include "sotto/kernels/cuda/cuda_rows.cuh"
#include "sotto/kernels/optimizer/adamw_parts.cuh"
#include "sotto/kernels/optimizer/moment_map.h"

namespace sotto::kernels::detail {

// Roots and inverses with IEEE rounding, without the compiler's branch for special cases: eight
// values side by side then wait only for each other's results. Both start with the hardware's
// approximation, which is accurate to an ulp, and add one Newton step in which only the last
// operation rounds.
struct DeviceMath {
  __device__ static float within(float x, float limit) {
    float result;
    // One instruction of these devices returns the sign of one and the smaller magnitude of both.
    NV_IF_ELSE_TARGET(NV_PROVIDES_SM_86,
                      (asm("min.xorsign.abs.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(limit));),
                      (result = fminf(fmaxf(x, -limit), limit);))
    return result;
  }
  __device__ static float at_least(float x, float least) { return fmaxf(x, least); }
  __device__ static float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }

  // For numbers of at least 2^-100: the remainder is then exact.
  __device__ static float square_root(float x) {
    float guess;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(guess) : "f"(x));
    const float root = x * guess;
    const float remainder = __fmaf_rn(-root, root, x);
    return __fmaf_rn(remainder, 0.5f * guess, root);
  }

  // Valid for numbers from 2^-126 to 2^126.
  __device__ static float inverse(float x) {
    float guess;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(guess) : "f"(x));
    const float error = __fmaf_rn(x, guess, -1.0f);
    return __fmaf_rn(guess, -error, guess);
  }
};

struct FloatMoments {
  // Uses no shared memory.
  struct Tables {
    __device__ void fill() {}
  };

  float* first;
  float* second;

  template <int kSize, class Part>
  __device__ Vector<float, kSize> load_first(Part part, const Tables&) const {
    return read<kSize>(first, part);
  }
  template <int kSize, class Part>
  __device__ Vector<float, kSize> load_second(Part part, const Tables&) const {
    return read<kSize>(second, part);
  }
  template <int kSize, class Part>
  __device__ void store(Part part, const Vector<float, kSize>& m, const Vector<float, kSize>& v,
                        const Tables&) const {
    write(first, part, m);
    write(second, part, v);
  }
};

__device__ const MomentMap kSignedOnDevice = kSignedMoments;
__device__ const MomentMap kUnsignedOnDevice = kUnsignedMoments;

// Four codes in a word, in the format of signed_code() and unsigned_code(). Each step processes all
// four at once where byte operations allow it.
struct FourShares {
  float at[4];
};

// Returns rank_in() of a magnitude of at least kSmallestShare, in the upper half of the result. One
// instruction extracts the cell where the compiler would shift and mask; the difference is signed
// and used in the address.
__device__ inline uint32_t shifted_rank(const uint32_t* cells, float magnitude) {
  const uint32_t bits = __float_as_uint(magnitude);
  const auto cell = static_cast<int32_t>(permuted(bits, 0x4432));
  return cells[cell - static_cast<int32_t>(kFirstCellBits >> 16)] + bits;
}

// Returns 0xff in the bytes of shares below 0, otherwise 0.
__device__ inline uint32_t sign_bytes(const FourShares& shares) {
  const auto pair = [](float a, float b) {
    uint32_t bytes;
    asm("prmt.b32 %0, %1, %2, 0xfb;"
        : "=r"(bytes)
        : "r"(__float_as_uint(a)), "r"(__float_as_uint(b)));
    return bytes;
  };
  return lower_halves(pair(shares.at[0], shares.at[1]), pair(shares.at[2], shares.at[3]));
}

__device__ inline uint32_t four_signed_codes(const uint32_t* cells, const FourShares& shares) {
  uint32_t ranks[4];
  for (int i = 0; i < 4; ++i)
    ranks[i] = shifted_rank(cells, fmaxf(fabsf(shares.at[i]), kSmallestShare));
  const uint32_t all = bytes_of<2>(ranks);
  const uint32_t below = all & sign_bytes(shares);
  // There is no -1: a rank of 128 becomes 127.
  const uint32_t ones = (below >> 7) & 0x01010101u;
  return 0x01010101u * kSignedZero + (all ^ below) - (below - ones);
}

__device__ inline uint32_t four_unsigned_codes(const uint32_t* cells, const FourShares& shares) {
  uint32_t ranks[4];
  for (int i = 0; i < 4; ++i) {
    // Only 0 may have the rank of 0, which the smallest shares would get: a lower bound makes every
    // positive share large enough for rank 1.
    const float least =
        fminf(__fmaf_rn(shares.at[i], 0x1p126f, kSmallestShare), kUnsignedMoments.runs.base[1]);
    ranks[i] = shifted_rank(cells, fmaxf(shares.at[i], least));
  }
  return bytes_of<2>(ranks);
}

// A warp processes a block: 32 threads of eight values.
struct CodedMoments {
  struct Tables {
    MomentMap of_first;
    MomentMap of_second;

    __device__ void fill() {
      for (unsigned i = threadIdx.x; i < of_first.values.size(); i += blockDim.x) {
        of_first.values[i] = kSignedOnDevice.values[i];
        of_second.values[i] = kUnsignedOnDevice.values[i];
      }
      for (unsigned i = threadIdx.x; i < of_first.cells.size(); i += blockDim.x) {
        of_first.cells[i] = kSignedOnDevice.cells[i];
        of_second.cells[i] = kUnsignedOnDevice.cells[i];
      }
    }
  };

  uint8_t* first;
  uint8_t* second;
  float* first_scales;
  float* second_scales;

  template <int kSize, class Part>
  __device__ static Vector<float, kSize> decoded(const uint8_t* codes, const float* scales,
                                                 Part part, const MomentMap& map) {
    static_assert(kSize * kWarp == kMomentBlock);
    const auto bytes = read_words<kSize>(codes, part);
    const float scale = scales[part.at / kMomentBlock];
    Vector<float, kSize> values;
    for (int i = 0; i < kSize; ++i) values.values[i] = map.values[byte_of(bytes, i)] * scale;
    return values;
  }
  template <int kSize, class Part>
  __device__ Vector<float, kSize> load_first(Part part, const Tables& tables) const {
    return decoded<kSize>(first, first_scales, part, tables.of_first);
  }
  template <int kSize, class Part>
  __device__ Vector<float, kSize> load_second(Part part, const Tables& tables) const {
    return decoded<kSize>(second, second_scales, part, tables.of_second);
  }

  // Returns the largest magnitude of the block; values past the range are ignored.
  template <int kSize, class Part>
  __device__ static float largest_of(Part part, const Vector<float, kSize>& values) {
    float largest = 0.0f;
    for (int i = 0; i < kSize; ++i)
      largest = fmaxf(largest, part.has(i) ? fabsf(values.values[i]) : 0.0f);
    return warp_largest_magnitude(largest);
  }

  // Stores codes and scale of the warp's block.
  template <int kSize, class Part, class Encode>
  __device__ static void store_coded(uint8_t* codes, float* scales, Part part,
                                     const Vector<float, kSize>& values, Encode encode) {
    const float largest = largest_of(part, values);
    const float inverse = has_inverse(largest) ? DeviceMath::inverse(largest) : 0.0f;
    Words<uint8_t, kSize> encoded;
    for (int i = 0; i < kSize / 4; ++i) {
      FourShares shares;
      // Values past the range may be larger than the largest, for which there is no cell.
      for (int j = 0; j < 4; ++j)
        shares.at[j] = part.has(4 * i + j) ? values.values[4 * i + j] * inverse : 0.0f;
      encoded.in.values[i] = encode(shares);
    }
    write(codes, part, encoded);
    if (threadIdx.x % kWarp == 0) scales[part.at / kMomentBlock] = largest;
  }
  template <int kSize, class Part>
  __device__ void store(Part part, const Vector<float, kSize>& m, const Vector<float, kSize>& v,
                        const Tables& tables) const {
    store_coded(first, first_scales, part, m, [&](const FourShares& shares) {
      return four_signed_codes(tables.of_first.cells.data(), shares);
    });
    store_coded(second, second_scales, part, v, [&](const FourShares& shares) {
      return four_unsigned_codes(tables.of_second.cells.data(), shares);
    });
  }
};

}  // namespace sotto::kernels::detail
