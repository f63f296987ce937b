// Attention with relative positions on tensor cores, backward: all gradients in one kernel. A block
// has a tile of keys and processes the tiles of queries that see these in order. The gradients of
// its keys and values stay in registers; those of queries and positions are added to fp32 sums in
// memory, which attention_relative_sums_cuda.cu completes.
#include <cuda_runtime.h>

#include <climits>

#include "sotto/kernels/attention/attention_relative_backward.cuh"
#include "sotto/kernels/attention/attention_relative_task.cuh"

namespace sotto::kernels::detail {

void attention_relative_sums_cuda(const CudaAttentionTask& task,
                                  const CudaAttentionGradients& gradients, void* stream);

namespace {

constexpr int kThreads = 256;

// Blocks that a multiprocessor is to hold, by registers.
template <int kHead>
constexpr int kMinBlocks = kHead <= 64 ? 2 : 1;

// Where results of blocks go. `progress` [H, tiles of all utterances]: null, or how many tiles of
// queries each block has processed, for blocks of a head to add in order.
template <class T>
struct BackwardResults {
  GradientRows<T> dk;
  GradientRows<T> dv;
  const float* content_bias;
  float* key_sums;  // [H, N]
  RelativeSums sums;
  int32_t* progress;
  int64_t num_tiles;
};

// A block: its keys, and its tiles in shared memory.
template <class T, int kHead>
struct KeyBlock {
  const RelativeCall<T>& call;
  const BackwardResults<T>& out;
  BackwardMemory<T, kHead>& memory;
  const RelativeHeadOfBlock<T>& head;
  HeadSource<T> dy;
  int first_key;
  int warp;  // of four: its sixteen queries, or positions
  int half;  // of the keys of a product, or of the columns of a head

  // Positions are a window of 192 rows. Each tile of queries has a chunk of 64, which begins with
  // the position of its last query and the first key; the chunk of the tile before comes after it.
  __device__ static int place(int tile) { return (tile + 1) % 3 * kTileRows; }
  __device__ int first_position(int tile) const {
    return head.length - kTileRows + first_key - tile * kTileRows;
  }
  __device__ const T* position_row(int tile, int group) const {
    const int row = place(group < 4 ? tile : tile - 1) + group % 4 * kWarpRows;
    return memory.positions + row * kRowStride<kHead>;
  }
  __device__ void start_positions(int tile) const {
    const int begin = first_position(tile);
    start_rows<kHead, kThreads>(memory.positions + place(tile) * kRowStride<kHead>, head.positions,
                                begin);
    start_numbers(memory.position_terms + place(tile), head.position_terms, begin,
                  head.positions.num_rows);
  }
  // Starts the copies of a tile of queries and of the positions that are new for it.
  __device__ void start(int tile) const {
    start_rows<kHead, kThreads>(memory.q, head.q, tile * kTileRows);
    start_rows<kHead, kThreads>(memory.dy, dy, tile * kTileRows);
    start_positions(tile);
    end_copies();
  }
  __device__ void start_keys() const {
    start_rows<kHead, kThreads>(memory.k, head.k, first_key);
    start_rows<kHead, kThreads>(memory.v, head.v, first_key);
    start_numbers(memory.content_terms, head.content_terms, first_key, head.length);
    for (int i = static_cast<int>(threadIdx.x); i < 4 * kWarpRows * kSkewedStride / 2;
         i += kThreads)
      reinterpret_cast<uint32_t*>(memory.skewed)[i] = 0;
  }

  // Computes the scores of the warp's sixteen queries and 32 keys, and the products of dy and v
  // less that of dy and y.
  __device__ void compute_scores(SumTile (&scores)[4], SumTile (&products)[4], int tile,
                                 const QueryStatistics& statistics) const {
    const int keys = half * 32;
    const int rows = warp * kWarpRows * kRowStride<kHead>;
    SumTile band[6];
    const T* positions[3];
#pragma unroll
    for (int pair = 0; pair < 3; ++pair) {
      const int group = 3 - warp + half * 2 + pair;
      positions[pair] = position_row(tile, group);
      const float* terms =
          memory.position_terms + place(group < 4 ? tile : tile - 1) + group % 4 * kWarpRows;
      set_columns(band[2 * pair], terms);
      set_columns(band[2 * pair + 1], terms + 8);
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      set_columns(scores[n], memory.content_terms + keys + n * 8);
      for (int e = 0; e < 4; ++e) products[n].at[e] = -statistics.delta[e / 2];
    }
#pragma unroll
    for (int k = 0; k < kHead / 16; ++k) {
      const LeftTile q = load_left(memory.q + rows + k * 16, kRowStride<kHead>);
#pragma unroll
      for (int pair = 0; pair < 3; ++pair) multiply_rows(band + 2 * pair, q, positions[pair], k);
#pragma unroll
      for (int pair = 0; pair < 2; ++pair)
        multiply_rows(scores + 2 * pair, q, memory.k + (keys + pair * 16) * kRowStride<kHead>, k);
      const LeftTile of_dy = load_left(memory.dy + rows + k * 16, kRowStride<kHead>);
#pragma unroll
      for (int pair = 0; pair < 2; ++pair)
        multiply_rows(products + 2 * pair, of_dy, memory.v + (keys + pair * 16) * kRowStride<kHead>,
                      k);
    }
    const BandShift shift;
#pragma unroll
    for (int n = 0; n < 4; ++n) shift.add(scores[n], band[n], band[n + 1], band[n + 2]);
  }

  // sums [16, 16] += columns 16 k .. of sixteen rows times those of sixteen others.
  __device__ static void multiply_rows(SumTile* sums, const LeftTile& a, const T* rows, int k) {
    const RightTiles b = load_right_transposed(rows + k * 16, kRowStride<kHead>);
    multiply_add<T>(sums[0], a, b.at[0], b.at[1]);
    multiply_add<T>(sums[1], a, b.at[2], b.at[3]);
  }

  // Writes probabilities and gradients of scores of the warp to shared memory, and adds the
  // gradients of each key.
  __device__ void write_weights(int tile, const QueryStatistics& statistics,
                                float (&key_sums)[4][2]) const {
    SumTile scores[4], products[4];
    compute_scores(scores, products, tile, statistics);
    const int row = lane_index() / 4;
    const int first_column = half * 32 + lane_index() % 4 * 2;
    const VisibleKeys visible(call, head.length, tile * kTileRows + warp * kWarpRows + row,
                              first_key);
    const float scale = call.scale * kLog2E;
    const float logsumexp[2] = {statistics.logsumexp[0] * kLog2E, statistics.logsumexp[1] * kLog2E};
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int e = 0; e < 4; e += 2) {
        const int column = first_column + n * 8;
        float probabilities[2], gradients[2];
        for (int i = 0; i < 2; ++i) {
          const float power = power_of_two(scores[n].at[e + i] * scale - logsumexp[e / 2]);
          probabilities[i] = visible.has(e / 2, column + i) ? power : 0.0f;
          gradients[i] = probabilities[i] * products[n].at[e + i];
          key_sums[n][i] += gradients[i];
          const int row_of_band = row + e / 2 * 8;
          memory.skewed[warp][row_of_band * kSkewedStride + 15 - row_of_band + column + i] =
              static_cast<T>(gradients[i]);
        }
        const int at = (warp * kWarpRows + row + e / 2 * 8) * kWeightStride + column;
        *reinterpret_cast<uint32_t*>(memory.probabilities + at) =
            packed<T>(probabilities[0], probabilities[1]);
        *reinterpret_cast<uint32_t*>(memory.gradients + at) = packed<T>(gradients[0], gradients[1]);
      }
    }
  }

  // Adds the gradient of the tile's queries to memory: gradients of scores times keys and
  // positions.
  __device__ void add_queries(int tile) const {
    const int first_query = tile * kTileRows + warp * kWarpRows;
    if (first_query >= head.length) return;
    const int first_column = half * (kHead / 2);
    SumTile sums[kHead / 16];
#pragma unroll
    for (int k = 0; k < 4; ++k)
      multiply_columns<T>(
          sums,
          load_left(memory.gradients + warp * kWarpRows * kWeightStride + k * 16, kWeightStride),
          memory.k + k * 16 * kRowStride<kHead> + first_column, kRowStride<kHead>);
#pragma unroll
    for (int k = 0; k < 5; ++k)
      multiply_columns<T>(sums, load_left(memory.skewed[warp] + k * 16, kSkewedStride),
                          position_row(tile, 3 - warp + k) + first_column, kRowStride<kHead>);
    const SumRows rows{
        out.sums.queries + head.start * out.sums.width + head.head * call.head_size + first_column,
        out.sums.width, head.length, call.head_size - first_column};
    rows.add(sums, first_query);
  }

  // Adds the gradients of the warp's sixteen positions from `begin` on to memory.
  __device__ void add_positions(SumTile (&sums)[kHead / 16], const SumTile& row_sums,
                                int begin) const {
    const int first = begin + warp * kWarpRows;
    const int count = head.positions.num_rows;
    const int first_column = half * (kHead / 2);
    const int64_t first_row = out.sums.first_row(head);
    const SumRows rows{
        out.sums.positions + first_row * out.sums.width + head.head * call.head_size + first_column,
        out.sums.width, count, call.head_size - first_column};
    rows.add(sums, first);
    if (half != 0 || lane_index() % 4 != 0) return;
    for (int of_lane = 0; of_lane < 2; ++of_lane) {
      const int row = first + lane_index() / 4 + of_lane * 8;
      if (row >= 0 && row < count)
        add_to_memory(out.sums.rows + head.head * out.sums.num_positions + first_row + row,
                      row_sums.at[of_lane * 2]);
    }
  }

  __device__ int* progress() const {
    return out.progress + head.head * out.num_tiles + head.start / kTileRows + head.utterance +
           static_cast<int>(blockIdx.x);
  }
  // Waits until the block of the keys before has added what belongs to a tile of queries. Blocks
  // start in the order of their keys, so that it is running or done.
  __device__ void wait_for_turn(int tile) const {
    if (out.progress == nullptr || first_key == 0) return;
    if (threadIdx.x == 0) {
      while (*const_cast<const volatile int*>(progress() - 1) <= tile) {
      }
    }
    __syncthreads();
  }
  __device__ void end_turn(int next_tile) const {
    if (out.progress == nullptr) return;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) *const_cast<volatile int*>(progress()) = next_tile;
  }

  // Writes the gradients of keys and values.
  __device__ void store(const KeySums<T, kHead>& dk, const KeySums<T, kHead>& dv,
                        const float (&key_sums)[4][2]) const {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      for (int i = 0; i < 2; ++i) {
        float sum = key_sums[n][i];
        for (int distance = 4; distance < 32; distance *= 2)
          sum += __shfl_xor_sync(0xffffffffu, sum, distance);
        if (lane_index() < 4) memory.key_sums[warp][half * 32 + n * 8 + lane_index() * 2 + i] = sum;
      }
    }
    __syncthreads();
    const auto sum_of = [&](int key) {
      return memory.key_sums[0][key] + memory.key_sums[1][key] + memory.key_sums[2][key] +
             memory.key_sums[3][key];
    };
    const int64_t of_head = static_cast<int64_t>(head.head) * call.head_size;
    dv.for_each([&](int key, int column, float value, float next) {
      if (first_key + key < head.length && column < call.head_size)
        out.dv.store(head.start + first_key + key, of_head + column, value, next);
    });
    dk.for_each([&](int key, int column, float value, float next) {
      if (first_key + key >= head.length || column >= call.head_size) return;
      const float sum = sum_of(key);
      const float* bias = out.content_bias + of_head + column;
      out.dk.store(head.start + first_key + key, of_head + column,
                   call.scale * (value + sum * bias[0]), call.scale * (next + sum * bias[1]));
    });
    const int key = static_cast<int>(threadIdx.x);
    if (key < kTileRows && first_key + key < head.length)
      out.key_sums[head.statistic(call) + first_key + key] = sum_of(key);
  }
};

template <class T, int kHead>
__global__ void __launch_bounds__(kThreads, kMinBlocks<kHead>)
    relative_backward_kernel(RelativeCall<T> call, RelativeSaved<T> saved, BackwardResults<T> out) {
  extern __shared__ __align__(16) char bytes[];
  auto& memory = *reinterpret_cast<BackwardMemory<T, kHead>*>(bytes);
  const RelativeHeadOfBlock<T> head(call);
  const int first_key = static_cast<int>(blockIdx.x) * kTileRows;
  if (first_key >= head.length) return;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const KeyBlock<T, kHead> block{call,      out,      memory,  head, head.rows_of(saved.dy, call),
                                 first_key, warp % 4, warp / 4};
  const TileRange tiles =
      TileRange::of(first_key - call.right, first_key + kTileRows + call.left, head.length);
  const auto load_statistics = [&](int tile) {
    return QueryStatistics::load(saved.logsumexp + head.statistic(call),
                                 saved.delta + head.statistic(call),
                                 tile * kTileRows + warp % 4 * kWarpRows, head.length);
  };

  block.start_keys();
  block.start_positions(tiles.begin - 1);
  block.start(tiles.begin);
  QueryStatistics statistics = load_statistics(tiles.begin);
  KeySums<T, kHead> dk, dv;
  PositionSums<T, kHead> positions;
  float key_sums[4][2] = {};
  for (int tile = tiles.begin; tile < tiles.end; ++tile) {
    wait_for_copies<0>();
    __syncthreads();
    block.write_weights(tile, statistics, key_sums);
    __syncthreads();
    dv.add(memory.probabilities, memory.dy);
    dk.add(memory.gradients, memory.q);
    positions.add(memory);
    __syncthreads();  // queries and the positions of the tile before are free
    if (tile + 1 < tiles.end) {
      block.start(tile + 1);
      statistics = load_statistics(tile + 1);
    }
    block.wait_for_turn(tile);
    block.add_queries(tile);
    block.add_positions(positions.second, positions.row_sums[1],
                        block.first_position(tile) + kTileRows);
    positions.move();
    if (tile + 1 < tiles.end) block.end_turn(tile + 1);
  }
  block.add_positions(positions.second, positions.row_sums[1], block.first_position(tiles.end - 1));
  block.end_turn(INT_MAX);
  block.store(dk, dv, key_sums);
}

void set_zero(void* first, int64_t bytes, cudaStream_t stream) {
  if (cudaMemsetAsync(first, 0, static_cast<size_t>(bytes), stream) != cudaSuccess)
    check_launch("zeros of sums");
}

template <class T, int kHead>
void run_backward(const CudaAttentionTask& task, const CudaAttentionGradients& gradients,
                  cudaStream_t stream) {
  const CudaRelativeGradients& relative = gradients.relative;
  const RelativeSums sums = relative_sums(task, gradients);
  const int64_t num_tiles = relative_tiles(task);
  const int64_t word = sizeof(float);
  set_zero(sums.queries, task.queries.num_frames * sums.width * word, stream);
  set_zero(sums.positions, sums.num_positions * sums.width * word, stream);
  set_zero(sums.rows, sums.num_positions * task.num_heads * word, stream);
  if (relative.progress != nullptr)
    set_zero(relative.progress, task.num_heads * num_tiles * word, stream);
  launch_tiles(relative_backward_kernel<T, kHead>,
               {.grid = tile_grid(task, task.keys.max_length),
                .num_threads = kThreads,
                .shared_bytes = sizeof(BackwardMemory<T, kHead>)},
               stream, relative_call<T>(task), relative_saved<T>(task, gradients),
               {.dk = gradient_rows<T>(gradients.out.k),
                .dv = gradient_rows<T>(gradients.out.v),
                .content_bias = task.relative.content_bias,
                .key_sums = relative.key_sums,
                .sums = sums,
                .progress = relative.progress,
                .num_tiles = num_tiles});
}

}  // namespace

void attention_relative_backward_cuda(const CudaAttentionTask& task,
                                      const CudaAttentionGradients& gradients, void* stream) {
  auto* on = static_cast<cudaStream_t>(stream);
  with_relative_kernel(task, [&](auto zero, auto head) {
    using T = decltype(zero);
    start_terms<T>(task, on);
    start_delta<T>(task, gradients, on);
    run_backward<T, decltype(head)::value>(task, gradients, on);
  });
  check_launch("the gradients of attention with relative positions");
  attention_relative_sums_cuda(task, gradients, stream);
}

}  // namespace sotto::kernels::detail
