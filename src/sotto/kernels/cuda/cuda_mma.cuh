// Products of 16-bit tiles on tensor cores, one warp at a time: c [16, 8] += a [16, 16] b [16, 8],
// with fp32 sums. Each lane holds a part of each tile, a fragment; tiles in shared memory are
// loaded as fragments by ldmatrix, whose rows have to begin at multiples of 16 bytes. Also copies
// to shared memory that run while a thread computes. For cards from sm_80 on.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <nv/target>
#include <type_traits>

namespace sotto::kernels {

// With g = lane / 4 and t = lane % 4, a lane holds of a tile of sums: {row g, columns 2 t and
// 2 t + 1}, {row g + 8, the same columns}.
struct SumTile {
  float at[4] = {};
};

// The first operand [16, 16]: {row g, columns 2 t and 2 t + 1}, {row g + 8, the same}, and both
// again 8 columns later.
struct LeftTile {
  uint32_t at[4];
};

// Two adjacent second operands [16, 8].
struct RightTiles {
  uint32_t at[4];
};

template <class T>
__device__ inline uint32_t packed(float low, float high) {
  if constexpr (std::is_same_v<T, __half>) {
    const __half2 both = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&both);
  } else {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&both);
  }
}

// Returns the sum of two packed values.
template <class T>
__device__ inline float sum_of_packed(uint32_t both) {
  if constexpr (std::is_same_v<T, __half>) {
    const float2 values = __half22float2(*reinterpret_cast<const __half2*>(&both));
    return values.x + values.y;
  } else {
    const float2 values = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&both));
    return values.x + values.y;
  }
}

// Returns columns of a tile of sums as a first operand: two adjacent tiles [16, 8].
template <class T>
__device__ inline LeftTile as_left(const SumTile& first, const SumTile& second) {
  return {{packed<T>(first.at[0], first.at[1]), packed<T>(first.at[2], first.at[3]),
           packed<T>(second.at[0], second.at[1]), packed<T>(second.at[2], second.at[3])}};
}

template <class T>
__device__ inline void multiply_add(SumTile& c, const LeftTile& a, uint32_t b0, uint32_t b1) {
  float* s = c.at;
  if constexpr (std::is_same_v<T, __half>) {
    NV_IF_TARGET(NV_PROVIDES_SM_80,
                 (asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                               "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" : "+f"(s[0]),
                               "+f"(s[1]), "+f"(s[2]), "+f"(s[3]) : "r"(a.at[0]), "r"(a.at[1]),
                               "r"(a.at[2]), "r"(a.at[3]), "r"(b0), "r"(b1));))
  } else {
    NV_IF_TARGET(NV_PROVIDES_SM_80,
                 (asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                               "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" : "+f"(s[0]),
                               "+f"(s[1]), "+f"(s[2]), "+f"(s[3]) : "r"(a.at[0]), "r"(a.at[1]),
                               "r"(a.at[2]), "r"(a.at[3]), "r"(b0), "r"(b1));))
  }
}

__device__ inline uint32_t shared_address(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

// Loads four tiles [8, 8]: tile i from the rows whose addresses lanes 8 i .. 8 i + 7 have.
__device__ inline void load_tiles(uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}
__device__ inline void load_tiles_transposed(uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}

__device__ inline int lane_index() {
  return static_cast<int>(threadIdx.x % 32);
}

// Loads a first operand that is stored as it is: [16, 16] from `tile` on.
template <class T>
__device__ inline LeftTile load_left(const T* tile, int stride) {
  const int lane = lane_index();
  LeftTile a;
  load_tiles(a.at, tile + lane % 16 * stride + lane / 16 * 8);
  return a;
}

// Loads a first operand that is stored transposed.
template <class T>
__device__ inline LeftTile load_left_transposed(const T* tile, int stride) {
  const int lane = lane_index();
  LeftTile a;
  load_tiles_transposed(a.at, tile + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8);
  return a;
}

// Loads two second operands that are stored transposed: rows of the tile are columns of b.
template <class T>
__device__ inline RightTiles load_right_transposed(const T* tile, int stride) {
  const int lane = lane_index();
  RightTiles b;
  load_tiles(b.at, tile + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8);
  return b;
}

// Loads two second operands that are stored as they are.
template <class T>
__device__ inline RightTiles load_right(const T* tile, int stride) {
  const int lane = lane_index();
  RightTiles b;
  load_tiles_transposed(b.at, tile + lane % 16 * stride + lane / 16 * 8);
  return b;
}

// Starts a copy of kBytes, 4, 8 or 16, to shared memory: zeros if there is no source, whose address
// is then not read.
template <int kBytes>
__device__ inline void start_copy(void* to, const void* from, bool has_source) {
  NV_IF_TARGET(
      NV_PROVIDES_SM_80,
      (asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(to)),
                    "l"(from), "n"(kBytes), "r"(has_source ? kBytes : 0) : "memory");))
}

// Ends a group of copies that this thread has started.
__device__ inline void end_copies() {
  NV_IF_TARGET(NV_PROVIDES_SM_80, (asm volatile("cp.async.commit_group;" :: : "memory");))
}

// Waits until at most kLatest of this thread's groups of copies are not done.
template <int kLatest>
__device__ inline void wait_for_copies() {
  NV_IF_TARGET(NV_PROVIDES_SM_80,
               (asm volatile("cp.async.wait_group %0;" ::"n"(kLatest) : "memory");))
}

}  // namespace sotto::kernels
