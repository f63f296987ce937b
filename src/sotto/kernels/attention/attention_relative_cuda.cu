// Attention with relative positions on tensor cores: forward, and the gradient of queries. Blocks
// have a tile of queries and process the tiles of keys that these see in order.
#include <cuda_runtime.h>

#include "sotto/kernels/attention/attention_relative.cuh"
#include "sotto/kernels/attention/attention_relative_task.cuh"

namespace sotto::kernels::detail {

namespace {

// Shared memory of a block of forward.
template <class T, int kHead>
struct ForwardMemory {
  T k[kTileRows * kRowStride<kHead>];
  T v[kTileRows * kRowStride<kHead>];
  T positions[2 * kTileRows * kRowStride<kHead>];
  union {
    T q[kTileRows * kRowStride<kHead>];  // until each warp has loaded its rows
    float band[kTileWarps][kWarpRows * kBandStride];
  };
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
      factors[half] = exp2f(largest[half] - base);
      float weights = 0.0f;
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          scores[n].at[e] = exp2f(scores[n].at[e] - base);
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

// The keys and positions of a block of queries in shared memory.
template <class T, int kHead>
struct KeyTiles {
  T* k;
  float* content_terms;
  RowRing<T, kHead> ring;
  const RelativeHeadOfBlock<T>& head;
  int first_query;

  // Chunk n begins with the position of the last query of this block and of key 64 n.
  __device__ void start_positions(int chunk) const {
    ring.start_chunk(head.positions, head.position_terms, chunk,
                     head.length - kTileRows - first_query + chunk * kTileRows);
  }
  // Starts the copies of a tile of keys and of the positions that are new for it.
  __device__ void start(int tile) const {
    start_rows<kHead>(k, head.k, tile * kTileRows);
    load_terms(content_terms, head.content_terms, tile * kTileRows, head.length);
    start_positions(tile + 1);
  }
};

// Returns the first row of the ring that a warp needs for a tile of keys.
__device__ int first_band_row(int tile) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  return tile * kTileRows + (kTileWarps - 1 - warp) * kWarpRows;
}

template <class T, int kHead>
__global__ void __launch_bounds__(kTileThreads)
    relative_forward_kernel(RelativeCall<T> call, T* y, float* logsumexp) {
  extern __shared__ __align__(16) char bytes[];
  auto& memory = *reinterpret_cast<ForwardMemory<T, kHead>*>(bytes);
  const RelativeHeadOfBlock<T> head(call);
  const int first_query = static_cast<int>(blockIdx.x) * kTileRows;
  if (first_query >= head.length) return;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_query = first_query + warp * kWarpRows;
  const RowRing<T, kHead> ring{memory.positions, memory.position_terms};
  const KeyTiles<T, kHead> keys{memory.k, memory.content_terms, ring, head, first_query};
  const Visibility visibility{head.length, call.left, call.right};
  const TileRange tiles =
      TileRange::of(first_query - call.left, first_query + kTileRows + call.right, head.length);
  const float scale = call.scale * kLog2E;

  start_rows<kHead>(memory.q, head.q, first_query);
  keys.start_positions(tiles.begin);
  keys.start(tiles.begin);
  end_copies();
  wait_for_copies<0>();
  __syncthreads();
  LeftRows<T, kHead> q;
  q.load(memory.q + warp * kWarpRows * kRowStride<kHead>);
  __syncthreads();  // from here on the band takes the place of the queries

  HeadSums<T, kHead> sums;
  RunningSoftmax softmax;
  for (int tile = tiles.begin; tile < tiles.end; ++tile) {
    start_rows<kHead>(memory.v, head.v, tile * kTileRows);
    end_copies();
    SumTile scores[8];
    compute_band(memory.band[warp], q, ring, first_band_row(tile));
    multiply_rows(scores, q, memory.k);
    add_terms(scores, memory.band[warp], memory.content_terms);
    __syncthreads();  // keys and the older half of the ring are free
    if (tile + 1 < tiles.end) keys.start(tile + 1);
    end_copies();
    const bool all = visibility.has_all(first_query, tile * kTileRows);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const Place place(n, e);
        const bool is_seen =
            all || visibility.sees(warp_query + place.row, tile * kTileRows + place.column);
        scores[n].at[e] = is_seen ? scores[n].at[e] * scale : -INFINITY;
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

// Shared memory of a block of the gradient of queries.
template <class T, int kHead>
struct QueryMemory {
  T k[kTileRows * kRowStride<kHead>];
  T v[kTileRows * kRowStride<kHead>];
  T positions[2 * kTileRows * kRowStride<kHead>];
  union {
    T rows[2][kTileRows * kRowStride<kHead>];  // q and dy, until each warp has loaded its rows
    struct {
      float band[kTileWarps][kWarpRows * kBandStride];
      T skewed[kTileWarps]
              [kWarpRows * kSkewedStride];  // gradients of scores in columns of the band
    };
  };
  float content_terms[kTileRows];
  float position_terms[2 * kTileRows];
};

template <class T, int kHead>
__global__ void __launch_bounds__(kTileThreads, kMinBlocks<kHead>)
    relative_query_kernel(RelativeCall<T> call, RelativeSaved<T> saved, GradientRows<T> dq) {
  extern __shared__ __align__(16) char bytes[];
  auto& memory = *reinterpret_cast<QueryMemory<T, kHead>*>(bytes);
  const RelativeHeadOfBlock<T> head(call);
  const int first_query = static_cast<int>(blockIdx.x) * kTileRows;
  if (first_query >= head.length) return;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_query = first_query + warp * kWarpRows;
  const RowRing<T, kHead> ring{memory.positions, memory.position_terms};
  const KeyTiles<T, kHead> keys{memory.k, memory.content_terms, ring, head, first_query};
  const Visibility visibility{head.length, call.left, call.right};
  const TileRange tiles =
      TileRange::of(first_query - call.left, first_query + kTileRows + call.right, head.length);
  const float scale = call.scale * kLog2E;

  start_rows<kHead>(memory.rows[0], head.q, first_query);
  start_rows<kHead>(memory.rows[1], head.rows_of(saved.dy, call), first_query);
  keys.start_positions(tiles.begin);
  end_copies();
  wait_for_copies<0>();
  __syncthreads();
  LeftRows<T, kHead> q;
  LeftRows<T, kHead> dy;
  q.load(memory.rows[0] + warp * kWarpRows * kRowStride<kHead>);
  dy.load(memory.rows[1] + warp * kWarpRows * kRowStride<kHead>);
  const QueryStatistics statistics =
      QueryStatistics::load(saved.logsumexp + head.statistic(call),
                            saved.delta + head.statistic(call), warp_query, head.length);
  __syncthreads();
  T* skewed = memory.skewed[warp];
  for (int i = lane_index(); i < kWarpRows * kSkewedStride / 2; i += 32)
    reinterpret_cast<uint32_t*>(skewed)[i] = 0;

  HeadSums<T, kHead> sums;
  for (int tile = tiles.begin; tile < tiles.end; ++tile) {
    keys.start(tile);
    start_rows<kHead>(memory.v, head.v, tile * kTileRows);
    end_copies();
    wait_for_copies<0>();
    __syncthreads();
    SumTile scores[8];
    compute_band(memory.band[warp], q, ring, first_band_row(tile));
    multiply_rows(scores, q, memory.k);
    add_terms(scores, memory.band[warp], memory.content_terms);
    SumTile gradients[8];
    multiply_rows(gradients, dy, memory.v);
    const bool all = visibility.has_all(first_query, tile * kTileRows);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const Place place(n, e);
        const bool is_seen =
            all || visibility.sees(warp_query + place.row, tile * kTileRows + place.column);
        const float weight =
            is_seen ? exp2f(scores[n].at[e] * scale - statistics.logsumexp[e / 2]) : 0.0f;
        const float gradient = weight * (gradients[n].at[e] - statistics.delta[e / 2]);
        gradients[n].at[e] = gradient;
        skewed[place.row * kSkewedStride + band_column(place)] = static_cast<T>(gradient);
      }
    }
    __syncwarp();
#pragma unroll
    for (int k = 0; k < 4; ++k)
      sums.add(as_left<T>(gradients[2 * k], gradients[2 * k + 1]),
               memory.k + k * 16 * kRowStride<kHead>);
#pragma unroll
    for (int k = 0; k < kBandColumns / 16; ++k)
      sums.add(load_left(skewed + k * 16, kSkewedStride), ring.row(first_band_row(tile) + k * 16));
    __syncthreads();
  }
  sums.for_each([&](int row, int column, float value, float next) {
    const int query = warp_query + row;
    if (query >= head.length || column >= call.head_size) return;
    dq.store(head.start + query, head.head * call.head_size + column, value * call.scale,
             next * call.scale);
  });
}

template <class T, int kHead>
void run_forward(const CudaAttentionTask& task, cudaStream_t stream) {
  auto* kernel = relative_forward_kernel<T, kHead>;
  constexpr int kBytes = sizeof(ForwardMemory<T, kHead>);
  launch_tiles(kernel, tile_grid(task, task.queries.max_length), kBytes, stream,
               relative_call<T>(task), static_cast<T*>(task.y.data), task.logsumexp);
}

template <class T, int kHead>
void run_query_gradient(const CudaAttentionTask& task, const CudaAttentionGradients& gradients,
                        cudaStream_t stream) {
  auto* kernel = relative_query_kernel<T, kHead>;
  constexpr int kBytes = sizeof(QueryMemory<T, kHead>);
  launch_tiles(kernel, tile_grid(task, task.queries.max_length), kBytes, stream,
               relative_call<T>(task), relative_saved<T>(task, gradients),
               gradient_rows<T>(gradients.out.q));
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

void attention_relative_query_gradient_cuda(const CudaAttentionTask& task,
                                            const CudaAttentionGradients& gradients, void* stream) {
  auto* on = static_cast<cudaStream_t>(stream);
  with_relative_kernel(task, [&](auto zero, auto head) {
    using T = decltype(zero);
    start_terms<T>(task, on);
    start_delta<T>(task, gradients, on);
    run_query_gradient<T, decltype(head)::value>(task, gradients, on);
  });
  check_launch("the gradient of queries with relative positions");
}

}  // namespace sotto::kernels::detail
