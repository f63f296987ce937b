// Attention with relative positions on tensor cores: the gradients of keys, values and positions.
// Blocks have a tile of keys, or of positions, and process the tiles of queries that these are seen
// by in order. Scores are computed again with queries as rows; their gradients go through shared
// memory to the warps that add them to the rows of the block.
#include <cuda_runtime.h>

#include "sotto/kernels/attention/attention_relative.cuh"
#include "sotto/kernels/attention/attention_relative_task.cuh"

namespace sotto::kernels::detail {

namespace {

// Elements from row to row of weights in shared memory.
constexpr int kWeightStride = kTileRows + 8;

// Weights of a warp's queries: probabilities, or gradients of scores. They take the place of its
// band.
template <class T>
struct WarpWeights {
  T probabilities[kWarpRows * kWeightStride];
  T gradients[kWarpRows * kWeightStride];
};

// Shared memory of a block of the gradients of keys and values.
template <class T, int kHead>
struct KeyMemory {
  T k[kTileRows * kRowStride<kHead>];
  T v[kTileRows * kRowStride<kHead>];
  T q[kTileRows * kRowStride<kHead>];
  T dy[kTileRows * kRowStride<kHead>];
  T positions[2 * kTileRows * kRowStride<kHead>];
  union {
    float band[kWarpRows * kBandStride];
    WarpWeights<T> weights;
  } warps[kTileWarps];
  float content_terms[kTileRows];
  float position_terms[2 * kTileRows];
};

template <class T, int kHead>
__global__ void __launch_bounds__(kTileThreads, kMinBlocks<kHead>)
    relative_key_kernel(RelativeCall<T> call, RelativeSaved<T> saved, GradientRows<T> dk,
                        GradientRows<T> dv, const float* content_bias, float* key_sums) {
  extern __shared__ __align__(16) char bytes[];
  auto& memory = *reinterpret_cast<KeyMemory<T, kHead>*>(bytes);
  const RelativeHeadOfBlock<T> head(call);
  const int first_key = static_cast<int>(blockIdx.x) * kTileRows;
  if (first_key >= head.length) return;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const RowRing<T, kHead> ring{memory.positions, memory.position_terms};
  const Visibility visibility{head.length, call.left, call.right};
  const TileRange tiles =
      TileRange::of(first_key - call.right, first_key + kTileRows + call.left, head.length);
  const float scale = call.scale * kLog2E;
  const HeadSource<T> dy_rows = head.rows_of(saved.dy, call);
  // Chunk -n begins with the position of the last query of tile n and of the first key.
  const auto start_positions = [&](int chunk) {
    ring.start_chunk(head.positions, head.position_terms, chunk,
                     head.length - kTileRows + first_key + chunk * kTileRows);
  };

  start_rows<kHead>(memory.k, head.k, first_key);
  start_rows<kHead>(memory.v, head.v, first_key);
  load_terms(memory.content_terms, head.content_terms, first_key, head.length);
  start_positions(1 - tiles.begin);

  HeadSums<T, kHead> key_gradients;
  HeadSums<T, kHead> value_gradients;
  RowSums sums;
  for (int tile = tiles.begin; tile < tiles.end; ++tile) {
    const int first_query = tile * kTileRows;
    const int warp_query = first_query + warp * kWarpRows;
    start_rows<kHead>(memory.q, head.q, first_query);
    start_rows<kHead>(memory.dy, dy_rows, first_query);
    start_positions(-tile);
    end_copies();
    const QueryStatistics statistics =
        QueryStatistics::load(saved.logsumexp + head.statistic(call),
                              saved.delta + head.statistic(call), warp_query, head.length);
    wait_for_copies<0>();
    __syncthreads();

    SumTile scores[8];
    {
      LeftRows<T, kHead> q;
      q.load(memory.q + warp * kWarpRows * kRowStride<kHead>);
      compute_band(memory.warps[warp].band, q, ring,
                   -tile * kTileRows + (kTileWarps - 1 - warp) * kWarpRows);
      multiply_rows(scores, q, memory.k);
      add_terms(scores, memory.warps[warp].band, memory.content_terms);
    }
    SumTile gradients[8];
    {
      LeftRows<T, kHead> dy;
      dy.load(memory.dy + warp * kWarpRows * kRowStride<kHead>);
      multiply_rows(gradients, dy, memory.v);
    }
    WarpWeights<T>& weights = memory.warps[warp].weights;
    const bool all = visibility.has_all(first_query, first_key);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; e += 2) {
        float probabilities[2];
        float of_scores[2];
        const Place place(n, e);
        for (int i = 0; i < 2; ++i) {
          const bool is_seen =
              all || visibility.sees(warp_query + place.row, first_key + place.column + i);
          probabilities[i] =
              is_seen ? exp2f(scores[n].at[e + i] * scale - statistics.logsumexp[e / 2]) : 0.0f;
          of_scores[i] = probabilities[i] * (gradients[n].at[e + i] - statistics.delta[e / 2]);
        }
        const int at = place.row * kWeightStride + place.column;
        *reinterpret_cast<uint32_t*>(weights.probabilities + at) =
            packed<T>(probabilities[0], probabilities[1]);
        *reinterpret_cast<uint32_t*>(weights.gradients + at) =
            packed<T>(of_scores[0], of_scores[1]);
      }
    }
    __syncthreads();
    // The warp's sixteen keys, over the queries of all warps.
#pragma unroll
    for (int k = 0; k < kTileWarps; ++k) {
      const WarpWeights<T>& of_queries = memory.warps[k].weights;
      const int row = k * 16 * kRowStride<kHead>;
      value_gradients.add(
          load_left_transposed(of_queries.probabilities + warp * kWarpRows, kWeightStride),
          memory.dy + row);
      const LeftTile d_scores =
          load_left_transposed(of_queries.gradients + warp * kWarpRows, kWeightStride);
      key_gradients.add(d_scores, memory.q + row);
      sums.add<T>(d_scores);
    }
    __syncthreads();
  }

  sums.join();
  const auto store = [&](const HeadSums<T, kHead>& rows, auto body) {
    rows.for_each([&](int row, int column, float value, float next) {
      const int key = first_key + warp * kWarpRows + row;
      if (key >= head.length || column >= call.head_size) return;
      body(head.start + key, head.head * call.head_size + column, row / 8,
           make_float2(value, next));
    });
  };
  store(value_gradients, [&](int64_t row, int column, int, float2 values) {
    dv.store(row, column, values.x, values.y);
  });
  store(key_gradients, [&](int64_t row, int column, int half, float2 values) {
    const float sum = sums.at[half];
    dk.store(row, column, call.scale * (values.x + sum * content_bias[column]),
             call.scale * (values.y + sum * content_bias[column + 1]));
  });
  if (lane_index() % 4 != 0) return;
  for (int half = 0; half < 2; ++half) {
    const int key = first_key + warp * kWarpRows + lane_index() / 4 + half * 8;
    if (key < head.length) key_sums[head.statistic(call) + key] = sums.at[half];
  }
}

// Shared memory of a block of the gradient of positions.
template <class T, int kHead>
struct PositionMemory {
  T positions[kTileRows * kRowStride<kHead>];
  T q[kTileRows * kRowStride<kHead>];
  T dy[kTileRows * kRowStride<kHead>];
  T k[2 * kTileRows * kRowStride<kHead>];
  T v[2 * kTileRows * kRowStride<kHead>];
  union {
    float terms[kWarpRows * kWeightStride];  // of positions: [queries, positions]
    T gradients[kWarpRows * kWeightStride];
  } warps[kTileWarps];
  float content_terms[2 * kTileRows];
  float position_terms[kTileRows];
};

// Where the sums of each utterance go, fp32.
struct PositionSums {
  float* gradients;  // [sum of 2 T - 1, D]
  float* sums;       // [H, sum of 2 T - 1]
  int64_t num_rows;
};

// The scores of a warp's sixteen queries that 64 positions belong to: they are 80 keys, the first
// query's from the first one on, and so on.
template <class T, int kHead>
struct DiagonalScores {
  SumTile scores[kBandColumns / 8];
  SumTile gradients[kBandColumns / 8];

  __device__ void compute(const T* q, const T* dy, const RowRing<T, kHead>& keys,
                          const RowRing<T, kHead>& values, int first_row) {
    LeftRows<T, kHead> rows;
    rows.load(q);
#pragma unroll
    for (int pair = 0; pair < kBandColumns / 16; ++pair)
      rows.multiply(scores[2 * pair], scores[2 * pair + 1], keys.row(first_row + pair * 16));
    rows.load(dy);
#pragma unroll
    for (int pair = 0; pair < kBandColumns / 16; ++pair)
      rows.multiply(gradients[2 * pair], gradients[2 * pair + 1],
                    values.row(first_row + pair * 16));
  }
};

// Writes the terms of positions of a warp's queries, [16, 64].
template <class T, int kHead>
__device__ void compute_terms(float* terms, const T* q, const T* positions,
                              const float* position_terms) {
  LeftRows<T, kHead> rows;
  rows.load(q);
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) {
    SumTile sums[2];
    rows.multiply(sums[0], sums[1], positions + pair * 16 * kRowStride<kHead>);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int column = pair * 16 + half * 8;
      const float* added = position_terms + column + lane_index() % 4 * 2;
      for (int e = 0; e < 4; ++e) sums[half].at[e] += added[e % 2];
      store_band(terms, kWeightStride, column, sums[half]);
    }
  }
  __syncwarp();
}

template <class T, int kHead>
__global__ void __launch_bounds__(kTileThreads)
    relative_position_kernel(RelativeCall<T> call, RelativeSaved<T> saved,
                             const float* position_bias, PositionSums out) {
  extern __shared__ __align__(16) char bytes[];
  auto& memory = *reinterpret_cast<PositionMemory<T, kHead>*>(bytes);
  const RelativeHeadOfBlock<T> head(call);
  const int first_position = static_cast<int>(blockIdx.x) * kTileRows;
  const int length = head.length;
  if (first_position >= 2 * length - 1) return;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_row = warp * kWarpRows * kRowStride<kHead>;
  const RowRing<T, kHead> keys{memory.k, memory.content_terms}, values{memory.v, nullptr};
  const Visibility visibility{length, call.left, call.right};
  const float scale = call.scale * kLog2E;
  const HeadSource<T> dy_rows = head.rows_of(saved.dy, call);
  // The queries with a key at one of the distances, which fall from the first position to the last.
  const int largest = length - 1 - first_position;
  const int smallest = largest - (kTileRows - 1);
  const bool is_seen = smallest <= call.left && -largest <= call.right;
  const int begin = smallest > 0 ? smallest : 0;
  const int end = is_seen ? (largest < 0 ? length + largest : length) : 0;
  // The key that the first query of tile 0 and the first position belong to; chunk n is 64 n later.
  const auto start_keys = [&](int chunk) {
    const int first_key = begin - largest + chunk * kTileRows;
    keys.start_chunk(head.k, head.content_terms, chunk, first_key);
    values.start_chunk(head.v, nullptr, chunk, first_key);
  };

  start_rows<kHead>(memory.positions, head.positions, first_position);
  load_terms(memory.position_terms, head.position_terms, first_position, 2 * length - 1);
  start_keys(0);

  HeadSums<T, kHead> position_gradients;
  RowSums sums;
  for (int tile = 0; begin + tile * kTileRows < end; ++tile) {
    const int first_query = begin + tile * kTileRows;
    const int warp_query = first_query + warp * kWarpRows;
    start_rows<kHead>(memory.q, head.q, first_query);
    start_rows<kHead>(memory.dy, dy_rows, first_query);
    start_keys(tile + 1);
    end_copies();
    const QueryStatistics statistics =
        QueryStatistics::load(saved.logsumexp + head.statistic(call),
                              saved.delta + head.statistic(call), warp_query, length);
    wait_for_copies<0>();
    __syncthreads();

    DiagonalScores<T, kHead> diagonal;
    const int first_row = tile * kTileRows + warp * kWarpRows;
    diagonal.compute(memory.q + warp_row, memory.dy + warp_row, keys, values, first_row);
    float* terms = memory.warps[warp].terms;
    compute_terms<T, kHead>(terms, memory.q + warp_row, memory.positions, memory.position_terms);
#pragma unroll
    for (int n = 0; n < kBandColumns / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const Place place(n, e);
        const int position = place.column - place.row;
        const int query = warp_query + place.row;
        float gradient = 0.0f;
        if (position >= 0 && position < kTileRows &&
            visibility.sees(query, query - largest + position)) {
          const float score = diagonal.scores[n].at[e] +
                              terms[place.row * kWeightStride + position] +
                              keys.terms[keys.place(first_row + place.column)];
          gradient = exp2f(score * scale - statistics.logsumexp[e / 2]) *
                     (diagonal.gradients[n].at[e] - statistics.delta[e / 2]);
        }
        diagonal.gradients[n].at[e] = gradient;
      }
    }
    __syncwarp();  // terms have been read: gradients take their place
    T* gradients = memory.warps[warp].gradients;
#pragma unroll
    for (int n = 0; n < kBandColumns / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const Place place(n, e);
        const int position = place.column - place.row;
        if (position >= 0 && position < kTileRows)
          gradients[place.row * kWeightStride + position] =
              static_cast<T>(diagonal.gradients[n].at[e]);
      }
    }
    __syncthreads();
    // The warp's sixteen positions, over the queries of all warps.
#pragma unroll
    for (int k = 0; k < kTileWarps; ++k) {
      const LeftTile d_scores =
          load_left_transposed(memory.warps[k].gradients + warp * kWarpRows, kWeightStride);
      position_gradients.add(d_scores, memory.q + k * 16 * kRowStride<kHead>);
      sums.add<T>(d_scores);
    }
    __syncthreads();
  }
  // Without a query the first copies are still under way.
  end_copies();
  wait_for_copies<0>();

  sums.join();
  const int64_t width = static_cast<int64_t>(call.num_heads) * call.head_size;
  const int64_t first_row = 2 * head.start - head.utterance;  // rows of the utterances before
  position_gradients.for_each([&](int row, int column, float value, float next) {
    const int position = first_position + warp * kWarpRows + row;
    if (position >= 2 * length - 1 || column >= call.head_size) return;
    const int64_t of_head = head.head * call.head_size + column;
    const float sum = sums.at[row / 8];
    *reinterpret_cast<float2*>(out.gradients + (first_row + position) * width + of_head) =
        make_float2(value + sum * position_bias[of_head], next + sum * position_bias[of_head + 1]);
  });
  if (lane_index() % 4 != 0) return;
  for (int half = 0; half < 2; ++half) {
    const int position = first_position + warp * kWarpRows + lane_index() / 4 + half * 8;
    if (position < 2 * length - 1)
      out.sums[head.head * out.num_rows + first_row + position] = sums.at[half];
  }
}

// A block has one row of the table of positions, and adds the sums of all utterances in order.
template <class T>
__global__ void add_positions_kernel(PositionSums in, CudaPack pack, T* d_positions, float* sums,
                                     int num_heads, int head_size, float scale) {
  const int64_t row = blockIdx.x;
  const int64_t longest = (static_cast<int64_t>(gridDim.x) + 1) / 2;
  const int64_t width = static_cast<int64_t>(num_heads) * head_size;
  const auto add = [&](auto value_of) {
    float sum = 0.0f;
    for (int64_t u = 0; u < pack.num_utterances; ++u) {
      const int64_t length = pack.starts[u + 1] - pack.starts[u];
      const int64_t position = row - (longest - length);
      if (position >= 0 && position < 2 * length - 1)
        sum += value_of(2 * int64_t{pack.starts[u]} - u + position);
    }
    return sum;
  };
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x)
    d_positions[row * width + i] =
        static_cast<T>(scale * add([&](int64_t from) { return in.gradients[from * width + i]; }));
  for (int64_t head = threadIdx.x; head < num_heads; head += blockDim.x)
    sums[head * gridDim.x + row] =
        add([&](int64_t from) { return in.sums[head * in.num_rows + from]; });
}

template <class T, int kHead>
void run_gradients(const CudaAttentionTask& task, const CudaAttentionGradients& gradients,
                   cudaStream_t stream) {
  const CudaRelativeGradients& relative = gradients.relative;
  const RelativeCall<T> call = relative_call<T>(task);
  const RelativeSaved<T> saved = relative_saved<T>(task, gradients);
  launch_tiles(relative_key_kernel<T, kHead>, tile_grid(task, task.keys.max_length),
               sizeof(KeyMemory<T, kHead>), stream, call, saved, gradient_rows<T>(gradients.out.k),
               gradient_rows<T>(gradients.out.v), task.relative.content_bias, relative.key_sums);
  const PositionSums sums{relative.position_sums, relative.row_sums,
                          2 * task.queries.num_frames - task.queries.num_utterances};
  launch_tiles(relative_position_kernel<T, kHead>, tile_grid(task, 2 * task.queries.max_length - 1),
               sizeof(PositionMemory<T, kHead>), stream, call, saved, task.relative.position_bias,
               sums);
  launch_tiles(add_positions_kernel<T>, dim3(static_cast<unsigned>(relative.positions.rows)), 0,
               stream, sums, task.queries, static_cast<T*>(relative.positions.data),
               relative.table_sums, call.num_heads, call.head_size, call.scale);
}

}  // namespace

void attention_relative_gradients_cuda(const CudaAttentionTask& task,
                                       const CudaAttentionGradients& gradients, void* stream) {
  with_relative_kernel(task, [&](auto zero, auto head) {
    run_gradients<decltype(zero), decltype(head)::value>(task, gradients,
                                                         static_cast<cudaStream_t>(stream));
  });
  check_launch("the gradients of keys, values and positions");
}

}  // namespace sotto::kernels::detail
