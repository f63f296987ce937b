// Attention with relative positions on tensor cores, forward. A block has a tile of queries and
// processes the tiles of keys that these see in order.
#include <cuda_runtime.h>

#include "sotto/kernels/attention/attention_relative.cuh"
#include "sotto/kernels/attention/attention_relative_task.cuh"

namespace sotto::kernels::detail {

namespace {

constexpr int kThreads = 128;

// Blocks that a multiprocessor is to hold, by registers.
template <int kHead>
constexpr int kMinBlocks = kHead <= 64   ? 4
                           : kHead <= 96 ? 3
                                         : 2;

// Shared memory of a block.
template <class T, int kHead>
struct ForwardMemory {
  T k[kTileRows * kRowStride<kHead>];
  T v[kTileRows * kRowStride<kHead>];  // first the queries, until each warp has loaded its rows
  T positions[2 * kTileRows * kRowStride<kHead>];
  float content_terms[kTileRows];
  float position_terms[2 * kTileRows];
};

// The softmax of a warp's queries so far: the largest score and the sum of the two rows of a lane.
struct RunningSoftmax {
  float largest[2] = {-INFINITY, -INFINITY};
  float sum[2] = {};

  // Replaces scores in powers of two by their weights. Returns by which factor earlier sums shrink.
  __device__ float2 add(SumTile (&scores)[8]) {
    float factors[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float now = largest[half];
#pragma unroll
      for (int n = 0; n < 8; ++n)
        now = fmaxf(now, fmaxf(scores[n].at[2 * half], scores[n].at[2 * half + 1]));
      now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 1));
      now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 2));
      // Without a visible key so far, all weights are zero.
      const float base = now == -INFINITY ? 0.0f : now;
      factors[half] = power_of_two(largest[half] - base);
      float weights = 0.0f;
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          scores[n].at[e] = power_of_two(scores[n].at[e] - base);
          weights += scores[n].at[e];
        }
      }
      largest[half] = now;
      sum[half] = sum[half] * factors[half] + weights;
    }
    return make_float2(factors[0], factors[1]);
  }

  __device__ void join() {
    for (float& total : sum) {
      total += __shfl_xor_sync(0xffffffffu, total, 1);
      total += __shfl_xor_sync(0xffffffffu, total, 2);
    }
  }
};

// The tiles of keys and positions of a block of queries. Positions are a window of 128 rows that
// moves by 64: chunk n of 64 rows takes the place of chunk n - 2.
template <class T, int kHead>
struct KeyTiles {
  ForwardMemory<T, kHead>& memory;
  const RelativeHeadOfBlock<T>& head;
  int first_query;

  // Chunk n begins with the position of the last query of this block and of key 64 n.
  __device__ void start_positions(int chunk) const {
    const int place = chunk % 2 * kTileRows;
    const int begin = head.length - kTileRows - first_query + chunk * kTileRows;
    start_rows<kHead, kThreads>(memory.positions + place * kRowStride<kHead>, head.positions,
                                begin);
    start_numbers(memory.position_terms + place, head.position_terms, begin,
                  head.positions.num_rows);
  }
  // Starts the copies of a tile of keys and of the positions that are new for it.
  __device__ void start(int tile) const {
    start_rows<kHead, kThreads>(memory.k, head.k, tile * kTileRows);
    start_numbers(memory.content_terms, head.content_terms, tile * kTileRows, head.length);
    start_positions(tile + 1);
  }

  // Sets the scores of a warp's queries to their terms of positions and of biases.
  __device__ void set_terms(SumTile (&scores)[8], const LeftRows<T, kHead>& q, int tile) const {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int first_row = tile * kTileRows + (3 - warp) * kWarpRows;
    const BandShift shift;
    SumTile band[10];
#pragma unroll
    for (int pair = 0; pair < 5; ++pair) {
      const int row = (first_row + pair * kWarpRows) % (2 * kTileRows);
      set_columns(band[2 * pair], memory.position_terms + row);
      set_columns(band[2 * pair + 1], memory.position_terms + row + 8);
      q.multiply(band[2 * pair], band[2 * pair + 1], memory.positions + row * kRowStride<kHead>);
      if (pair == 0) continue;
#pragma unroll
      for (int n = 2 * pair - 2; n < 2 * pair; ++n) {
        set_columns(scores[n], memory.content_terms + n * 8);
        shift.add(scores[n], band[n], band[n + 1], band[n + 2]);
      }
    }
  }
};

template <class T, int kHead>
__global__ void __launch_bounds__(kThreads, kMinBlocks<kHead>)
    relative_forward_kernel(RelativeCall<T> call, T* y, float* logsumexp) {
  extern __shared__ __align__(16) char bytes[];
  auto& memory = *reinterpret_cast<ForwardMemory<T, kHead>*>(bytes);
  const RelativeHeadOfBlock<T> head(call);
  const int first_query = static_cast<int>(blockIdx.x) * kTileRows;
  if (first_query >= head.length) return;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_query = first_query + warp * kWarpRows;
  const KeyTiles<T, kHead> keys{memory, head, first_query};
  const TileRange tiles =
      TileRange::of(first_query - call.left, first_query + kTileRows + call.right, head.length);
  const float scale = call.scale * kLog2E;

  start_rows<kHead, kThreads>(memory.v, head.q, first_query);
  keys.start_positions(tiles.begin);
  keys.start(tiles.begin);
  end_copies();
  wait_for_copies<0>();
  __syncthreads();
  LeftRows<T, kHead> q;
  q.load(memory.v + warp * kWarpRows * kRowStride<kHead>);
  __syncthreads();  // from here on values take the place of the queries

  HeadSums<T, kHead> sums;
  RunningSoftmax softmax;
  for (int tile = tiles.begin; tile < tiles.end; ++tile) {
    start_rows<kHead, kThreads>(memory.v, head.v, tile * kTileRows);
    end_copies();
    SumTile scores[8];
    keys.set_terms(scores, q, tile);
#pragma unroll
    for (int pair = 0; pair < 4; ++pair)
      q.multiply(scores[2 * pair], scores[2 * pair + 1],
                 memory.k + pair * kWarpRows * kRowStride<kHead>);
    __syncthreads();  // keys and the older half of the positions are free
    if (tile + 1 < tiles.end) keys.start(tile + 1);
    end_copies();
    const VisibleKeys visible(call, head.length, warp_query + lane_index() / 4, tile * kTileRows);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int key = n * 8 + lane_index() % 4 * 2 + e % 2;
        scores[n].at[e] = visible.has(e / 2, key) ? scores[n].at[e] * scale : -INFINITY;
      }
    }
    const float2 factors = softmax.add(scores);
#pragma unroll
    for (int n = 0; n < kHead / 8; ++n) {
      sums.at[n].at[0] *= factors.x;
      sums.at[n].at[1] *= factors.x;
      sums.at[n].at[2] *= factors.y;
      sums.at[n].at[3] *= factors.y;
    }
    wait_for_copies<1>();  // the values
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 4; ++k)
      sums.add(as_left<T>(scores[2 * k], scores[2 * k + 1]), memory.v + k * 16 * kRowStride<kHead>);
    wait_for_copies<0>();
    __syncthreads();  // values are free, and the next keys are there
  }

  softmax.join();
  sums.for_each([&](int row, int column, float value, float next) {
    const int query = warp_query + row;
    if (query >= head.length || column >= call.head_size) return;
    const float factor = 1.0f / softmax.sum[row / 8];
    const HeadSource<T> rows = head.rows_of(y, call);
    *reinterpret_cast<uint32_t*>(const_cast<T*>(rows.first) + query * rows.stride + column) =
        packed<T>(value * factor, next * factor);
  });
  if (lane_index() % 4 != 0) return;
  for (int half = 0; half < 2; ++half) {
    const int query = warp_query + lane_index() / 4 + half * 8;
    if (query < head.length)
      logsumexp[head.statistic(call) + query] =
          softmax.largest[half] * kLn2 + logf(softmax.sum[half]);
  }
}

template <class T, int kHead>
void run_forward(const CudaAttentionTask& task, cudaStream_t stream) {
  launch_tiles(relative_forward_kernel<T, kHead>,
               {.grid = tile_grid(task, task.queries.max_length),
                .num_threads = kThreads,
                .shared_bytes = sizeof(ForwardMemory<T, kHead>)},
               stream, relative_call<T>(task), static_cast<T*>(task.y.data), task.logsumexp);
}

}  // namespace

void attention_relative_forward_cuda(const CudaAttentionTask& task, void* stream) {
  auto* on = static_cast<cudaStream_t>(stream);
  with_relative_kernel(task, [&](auto zero, auto head) {
    using T = decltype(zero);
    start_terms<T>(task, on);
    run_forward<T, decltype(head)::value>(task, on);
  });
  check_launch("attention with relative positions");
}

}  // namespace sotto::kernels::detail
