#include "sotto/kernels/convolution/convolution_shape.h"
#include "sotto/kernels/cuda/cuda_pack.cuh"

namespace sotto::kernels::detail {

namespace {

// In weights adjacent elements are taps, in all other arrays channels: a tile is transposed by a
// block of 32 x 8 threads in shared memory, so that both sides access whole lines.
constexpr int kTile = 32;
constexpr int kTileRows = 8;

// Returns tiles of `num_taps` taps and all output channels, for each input channel.
dim3 tile_blocks(int64_t num_taps, int64_t channels) {
  const auto tiles = [](int64_t n) { return static_cast<unsigned>((n + kTile - 1) / kTile); };
  return dim3(tiles(num_taps), tiles(channels), static_cast<unsigned>(channels));
}

template <class T>
__global__ void order_kernel(const T* weight, T* taps, TapSource source) {
  __shared__ T tile[kTile][kTile + 1];
  const ConvolutionShape& shape = source.shape;
  const int64_t read = blockIdx.z;
  const int64_t first_position = static_cast<int64_t>(blockIdx.x) * kTile;
  const int64_t first_written = static_cast<int64_t>(blockIdx.y) * kTile;
  const int64_t tap = source.tap_at(first_position + threadIdx.x);
  for (int y = static_cast<int>(threadIdx.y); y < kTile; y += kTileRows) {
    const int64_t written = first_written + y;
    const bool is_weight = tap >= 0 && tap < shape.taps && written < shape.channels;
    tile[y][threadIdx.x] =
        is_weight ? weight[source.first_weight(read, written) + tap] : static_cast<T>(0.0f);
  }
  __syncthreads();
  const int64_t written = first_written + threadIdx.x;
  for (int y = static_cast<int>(threadIdx.y); y < kTile; y += kTileRows) {
    const int64_t position = first_position + y;
    if (position < shape.padded_taps() && written < shape.channels)
      taps[(read * shape.padded_taps() + position) * shape.channels + written] =
          tile[threadIdx.x][y];
  }
}

// Location of an element in a row of frames with `channels` values each. In 32 bits: a 64-bit
// division takes longer than the memory access.
struct FramePosition {
  __device__ FramePosition(int64_t column, int64_t channels)
      : frame(static_cast<unsigned>(column) / static_cast<unsigned>(channels)),
        channel(static_cast<unsigned>(column) - frame * static_cast<unsigned>(channels)) {}

  unsigned frame;
  unsigned channel;
};

template <class T, int kSize>
__global__ void expand_kernel(const T* taps, T* matrix, ConvolutionShape shape) {
  for_each_row(shape.matrix_rows(), [&](int64_t row) {
    const FramePosition position(row, shape.channels);
    const T* from = taps + shape.row_in_taps(position.frame, position.channel);
    T* to = matrix + row * shape.matrix_columns();
    for_each_column<kSize>(shape.matrix_columns(),
                           [&](int64_t column) { store(to + column, load<kSize>(from + column)); });
  });
}

// Calls body(index in rows, index in frames, whether the frame is in the utterance) for all vectors
// of the rows of blocks.
template <int kSize, class Body>
__device__ void for_each_position(const CudaBlockRows& in, Body body) {
  UtteranceCursor utterance(in.blocks);
  for_each_row(in.rows.rows, [&](int64_t row) {
    const int64_t block = in.first_block + row;
    utterance.move_to(block);
    const int64_t begin = in.pack.starts[utterance.utterance()];
    const int64_t end = in.pack.starts[utterance.utterance() + 1];
    const int64_t first = begin + (block - utterance.start()) * in.shape.block - in.before;
    for_each_column<kSize>(in.rows.width, [&](int64_t column) {
      const FramePosition position(column, in.shape.channels);
      const int64_t frame = first + position.frame;
      body(row * in.rows.width + column,
           frame * in.shape.width + in.first_channel + position.channel,
           frame >= begin && frame < end);
    });
  });
}

template <class T, int kSize>
__global__ void gather_kernel(CudaBlockRows in) {
  const T* frames = static_cast<const T*>(in.frames.data);
  T* rows = static_cast<T*>(in.rows.data);
  for_each_position<kSize>(in, [&](int64_t in_rows, int64_t in_frames, bool is_inside) {
    store(rows + in_rows, is_inside ? load<kSize>(frames + in_frames) : zero_vector<T, kSize>());
  });
}

template <class T, int kSize>
__global__ void scatter_kernel(CudaBlockRows in) {
  T* frames = static_cast<T*>(in.frames.data);
  const T* rows = static_cast<const T*>(in.rows.data);
  for_each_position<kSize>(in, [&](int64_t in_rows, int64_t in_frames, bool is_inside) {
    if (is_inside) store(frames + in_frames, load<kSize>(rows + in_rows));
  });
}

// The elements of a tap are on a diagonal of the matrix: they are summed along it.
__global__ void fold_kernel(const float* matrix, float* grad_weight, ConvolutionShape shape) {
  __shared__ float tile[kTile][kTile + 1];
  const int64_t read = blockIdx.z;
  const int64_t first_tap = static_cast<int64_t>(blockIdx.x) * kTile;
  const int64_t first_written = static_cast<int64_t>(blockIdx.y) * kTile;
  const int64_t columns = shape.matrix_columns();
  const int64_t diagonal = shape.channels * columns + shape.channels;
  for (int y = static_cast<int>(threadIdx.y); y < kTile; y += kTileRows) {
    const int64_t tap = first_tap + y;
    const int64_t written = first_written + threadIdx.x;
    float sum = 0.0f;
    if (tap < shape.taps && written < shape.channels) {
      const float* from = matrix + (tap * shape.channels + read) * columns + written;
#pragma unroll 8
      for (int64_t frame = 0; frame < shape.block; ++frame) sum += from[frame * diagonal];
    }
    tile[y][threadIdx.x] = sum;
  }
  __syncthreads();
  const int64_t tap = first_tap + threadIdx.x;
  for (int y = static_cast<int>(threadIdx.y); y < kTile; y += kTileRows) {
    const int64_t written = first_written + y;
    if (tap < shape.taps && written < shape.channels)
      grad_weight[(written * shape.channels + read) * shape.taps + tap] += tile[threadIdx.x][y];
  }
}

// Calls body(a value of the type, vector size) for frames and rows of a group.
template <class Body>
void with_choices(const CudaBlockRows& in, Body body) {
  with_cuda_type(in.rows.type, [&](auto zero) {
    const bool fits = fits_vectors(in.shape.channels, {in.frames.data, in.rows.data});
    with_vector_size(fits, [&](auto size) { body(zero, size); });
  });
}

}  // namespace

void convolution_order_cuda(const CudaTaps& in, void* stream) {
  const ConvolutionShape& shape = in.source.shape;
  with_cuda_type(in.taps.type, [&](auto zero) {
    using T = decltype(zero);
    order_kernel<T><<<tile_blocks(shape.padded_taps(), shape.channels), dim3(kTile, kTileRows), 0,
                      static_cast<cudaStream_t>(stream)>>>(data_of<const T>(in.weight),
                                                           data_of<T>(in.taps), in.source);
  });
  check_launch("grouped convolution order");
}

void convolution_expand_cuda(const CudaArray& taps, const CudaArray& matrix,
                             const ConvolutionShape& shape, void* stream) {
  with_cuda_type(taps.type, [&](auto zero) {
    using T = decltype(zero);
    with_vector_size(fits_vectors(shape.channels, {taps.data, matrix.data}), [&](auto size) {
      const RowGrid grid = row_grid(matrix.rows, (matrix.width + size - 1) / size);
      expand_kernel<T, size><<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(
          data_of<const T>(taps), data_of<T>(matrix), shape);
    });
  });
  check_launch("grouped convolution expand");
}

void convolution_gather_cuda(const CudaBlockRows& in, void* stream) {
  with_choices(in, [&](auto zero, auto size) {
    const RowGrid grid = row_grid(in.rows.rows, (in.rows.width + size - 1) / size);
    gather_kernel<decltype(zero), size>
        <<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(in);
  });
  check_launch("grouped convolution gather");
}

void convolution_scatter_cuda(const CudaBlockRows& in, void* stream) {
  with_choices(in, [&](auto zero, auto size) {
    const RowGrid grid = row_grid(in.rows.rows, (in.rows.width + size - 1) / size);
    scatter_kernel<decltype(zero), size>
        <<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(in);
  });
  check_launch("grouped convolution scatter");
}

void convolution_fold_cuda(const CudaArray& matrix, const CudaArray& grad_weight,
                           const ConvolutionShape& shape, void* stream) {
  fold_kernel<<<tile_blocks(shape.taps, shape.channels), dim3(kTile, kTileRows), 0,
                static_cast<cudaStream_t>(stream)>>>(data_of<const float>(matrix),
                                                     data_of<float>(grad_weight), shape);
  check_launch("grouped convolution fold");
}

}  // namespace sotto::kernels::detail
