#include "sotto/kernels/cuda/cuda_rows.cuh"
#include "sotto/kernels/cuda/cuda_slabs.cuh"
#include "sotto/kernels/norm/batch_norm_arrays.h"

namespace sotto::kernels::detail {

namespace {

// A block processes some rows, blockIdx.x of gridDim.x parts, for one strip of channels,
// blockIdx.y; its warps take rows in turn.
template <int kSize>
struct Part {
  int64_t begin;
  int64_t end;
  int64_t first;    // channel of the strip
  int64_t channel;  // of this thread
  bool is_inside;

  __device__ explicit Part(const CudaArray& x)
      : begin(first_row_of_slab(blockIdx.x, x.rows, gridDim.x)),
        end(first_row_of_slab(blockIdx.x + 1, x.rows, gridDim.x)),
        first(static_cast<int64_t>(blockIdx.y) * kStripColumns<kSize>),
        channel(first + threadIdx.x * kSize),
        is_inside(channel < x.width) {}

  // Calls body(index in arrays like x) for this thread's rows.
  template <class Body>
  __device__ void for_each_row(int64_t width, Body body) const {
    if (!is_inside) return;
#pragma unroll 4
    for (int64_t row = begin + threadIdx.y; row < end; row += kStripWarps)
      body(row * width + channel);
  }

  // Returns this thread's channels of a vector [D]; zeros past the last.
  __device__ Vector<float, kSize> of(const CudaArray& vector) const {
    if (!is_inside) return zero_vector<float, kSize>();
    return load<kSize>(static_cast<const float*>(vector.data) + channel);
  }

  __device__ Vector<float, kSize> rstd(const CudaArray& variance, float epsilon) const {
    Vector<float, kSize> result = of(variance);
    for (int i = 0; i < kSize; ++i) result.values[i] = 1.0f / sqrtf(result[i] + epsilon);
    return result;
  }
};

// --- statistics

// Two passes over a slab, the second from a cache: the one-pass formula loses the variance of a
// channel with a large mean. partial [slabs, 3, D], as batch_norm_arrays.h has it.
template <class T, int kSize>
__global__ void slab_statistics_kernel(BatchStatistics in) {
  __shared__ alignas(16) float buffer[kStripWarps * kStripColumns<kSize>];
  const T* x = static_cast<const T*>(in.x.data);
  const int64_t width = in.x.width;
  const Part<kSize> part(in.x);
  float* to = static_cast<float*>(in.partial.data) + blockIdx.x * in.partial.width + part.first;
  const int64_t count = width - part.first;
  Vector<float, kSize> sums = zero_vector<float, kSize>();
  part.for_each_row(width, [&](int64_t at) {
    const Vector<T, kSize> values = load<kSize>(x + at);
    for (int i = 0; i < kSize; ++i) sums.values[i] += values[i];
  });
  store_sum_over_y(sums, buffer, to, count);
  __syncthreads();

  const auto rows = static_cast<float>(part.end - part.begin);
  Vector<float, kSize> mean = zero_vector<float, kSize>();
  if (part.is_inside) mean = load<kSize>(to + threadIdx.x * kSize);
  for (int i = 0; i < kSize; ++i) mean.values[i] = mean[i] / rows;
  Vector<float, kSize> differences = zero_vector<float, kSize>();
  Vector<float, kSize> squares = zero_vector<float, kSize>();
  part.for_each_row(width, [&](int64_t at) {
    const Vector<T, kSize> values = load<kSize>(x + at);
    for (int i = 0; i < kSize; ++i) {
      const float difference = values[i] - mean[i];
      differences.values[i] += difference;
      squares.values[i] += difference * difference;
    }
  });
  store_sum_over_y(differences, buffer, to + width, count);
  store_sum_over_y(squares, buffer, to + 2 * width, count);
}

constexpr int kCombineWarps = 8;

// Adds the values of all warps in order, for 32 columns: every thread gets its column's total.
__device__ double sum_over_warps(double value) {
  __shared__ double shares[kCombineWarps][kWarp];
  __syncthreads();  // an earlier call has read the shares
  shares[threadIdx.y][threadIdx.x] = value;
  __syncthreads();
  double total = 0.0;
  for (int warp = 0; warp < kCombineWarps; ++warp) total += shares[warp][threadIdx.x];
  return total;
}

// Adds the statistics of one channel to its stage.
__device__ void add_to_stage(const BatchStatistics& in, int64_t channel,
                             const ChannelStatistics& added) {
  float* mean = static_cast<float*>(in.staged_mean.data) + channel;
  float* variance = static_cast<float*>(in.staged_variance.data) + channel;
  const double share = static_cast<double>(in.x.rows) / static_cast<double>(in.staged_rows);
  const ChannelStatistics all = combine_statistics({*mean, *variance}, added, share);
  *mean = static_cast<float>(all.mean);
  *variance = static_cast<float>(all.variance);
}

// Combines the slabs of 32 channels, each warp some of them, in double: their means may be far from
// zero.
__global__ void combine_statistics_kernel(BatchStatistics in) {
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * kWarp + threadIdx.x;
  const int64_t num_slabs = in.partial.rows;
  const int64_t width = in.x.width;
  const float* partial = static_cast<const float*>(in.partial.data) + channel;
  const int64_t begin = num_slabs * threadIdx.y / kCombineWarps;
  const int64_t end = channel < width ? num_slabs * (threadIdx.y + 1) / kCombineWarps : begin;
  const auto rows_of = [&](int64_t slab) {
    return static_cast<double>(first_row_of_slab(slab + 1, in.x.rows, num_slabs) -
                               first_row_of_slab(slab, in.x.rows, num_slabs));
  };
  const auto mean_of = [&](int64_t slab) {
    const float* of_slab = partial + slab * in.partial.width;
    const double rows = rows_of(slab);
    const float rounded = of_slab[0] / static_cast<float>(rows);
    return static_cast<double>(rounded) + of_slab[width] / rows;
  };
  double mean = 0.0;
#pragma unroll 4
  for (int64_t slab = begin; slab < end; ++slab) mean += rows_of(slab) * mean_of(slab);
  mean = sum_over_warps(mean) / static_cast<double>(in.x.rows);
  double squares = 0.0;
#pragma unroll 4
  for (int64_t slab = begin; slab < end; ++slab) {
    const float* of_slab = partial + slab * in.partial.width;
    const double rows = rows_of(slab);
    const double lost = of_slab[width];
    const double distance = mean_of(slab) - mean;
    squares += of_slab[2 * width] - lost * lost / rows + rows * distance * distance;
  }
  squares = sum_over_warps(squares);
  if (threadIdx.y > 0 || channel >= width) return;
  const ChannelStatistics of_batch{mean, squares / static_cast<double>(in.x.rows)};
  static_cast<float*>(in.mean.data)[channel] = static_cast<float>(of_batch.mean);
  static_cast<float*>(in.variance.data)[channel] = static_cast<float>(of_batch.variance);
  if (in.staged_mean.data != nullptr) add_to_stage(in, channel, of_batch);
}

constexpr int kCommitThreads = 128;

__global__ void commit_kernel(BatchNormCommit in, int64_t width) {
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * kCommitThreads + threadIdx.x;
  if (channel >= width) return;
  const auto move = [&](const CudaArray& averages, const CudaArray& staged, double factor) {
    float* average = static_cast<float*>(averages.data) + channel;
    const double newest = static_cast<const float*>(staged.data)[channel];
    *average = static_cast<float>(move_average(*average, factor * newest, in.momentum));
  };
  move(in.running_mean, in.staged_mean, 1.0);
  const auto rows = static_cast<double>(in.staged_rows);
  if (in.staged_rows > 1) move(in.running_variance, in.staged_variance, rows / (rows - 1.0));
}

// --- forward

template <class T, int kSize>
__global__ void forward_kernel(BatchNormForward in) {
  const T* x = static_cast<const T*>(in.x.data);
  T* y = static_cast<T*>(in.y.data);
  const Part<kSize> part(in.x);
  const Vector<float, kSize> mean = part.of(in.mean);
  Vector<float, kSize> scale = part.rstd(in.variance, in.epsilon);
  const Vector<float, kSize> gamma = part.of(in.gamma);
  const Vector<float, kSize> shift = part.of(in.beta);
  for (int i = 0; i < kSize; ++i) scale.values[i] *= gamma[i];
  part.for_each_row(in.x.width, [&](int64_t at) {
    Vector<T, kSize> values = load<kSize>(x + at);
    for (int i = 0; i < kSize; ++i) values.set(i, (values[i] - mean[i]) * scale[i] + shift[i]);
    store(y + at, values);
  });
}

// --- backward

// Sums over the rows of a slab for gamma and beta; with constants also dx. partial [slabs, 2, D].
template <bool kHasConstants, class T, int kSize>
__global__ void slab_backward_kernel(BatchNormBackward in) {
  __shared__ alignas(16) float buffer[kStripWarps * kStripColumns<kSize>];
  const T* x = static_cast<const T*>(in.x.data);
  const T* dy = static_cast<const T*>(in.dy.data);
  T* dx = static_cast<T*>(in.dx.data);
  const int64_t width = in.x.width;
  const Part<kSize> part(in.x);
  const Vector<float, kSize> mean = part.of(in.mean);
  const Vector<float, kSize> rstd = part.rstd(in.variance, in.epsilon);
  Vector<float, kSize> scale = part.of(in.gamma);
  for (int i = 0; i < kSize; ++i) scale.values[i] *= rstd[i];
  Vector<float, kSize> gamma_sum = zero_vector<float, kSize>();
  Vector<float, kSize> beta_sum = zero_vector<float, kSize>();
  part.for_each_row(width, [&](int64_t at) {
    const Vector<T, kSize> values = load<kSize>(x + at);
    Vector<T, kSize> gradient = load<kSize>(dy + at);
    for (int i = 0; i < kSize; ++i) {
      gamma_sum.values[i] += gradient[i] * (values[i] - mean[i]);
      beta_sum.values[i] += gradient[i];
      if constexpr (kHasConstants) gradient.set(i, gradient[i] * scale[i]);
    }
    if constexpr (kHasConstants) store(dx + at, gradient);
  });
  for (int i = 0; i < kSize; ++i) gamma_sum.values[i] *= rstd[i];
  float* to = static_cast<float*>(in.partial.data) + blockIdx.x * in.partial.width + part.first;
  store_sum_over_y(gamma_sum, buffer, to, width - part.first);
  store_sum_over_y(beta_sum, buffer, to + width, width - part.first);
}

template <class T, int kSize>
__global__ void dx_kernel(BatchNormBackward in) {
  const T* x = static_cast<const T*>(in.x.data);
  const T* dy = static_cast<const T*>(in.dy.data);
  T* dx = static_cast<T*>(in.dx.data);
  const Part<kSize> part(in.x);
  const auto num_rows = static_cast<float>(in.x.rows);
  CudaArray beta_total = in.totals;
  beta_total.data = static_cast<float*>(in.totals.data) + in.x.width;
  const Vector<float, kSize> mean = part.of(in.mean);
  const Vector<float, kSize> rstd = part.rstd(in.variance, in.epsilon);
  Vector<float, kSize> scale = part.of(in.gamma);
  Vector<float, kSize> slope = part.of(in.totals);
  Vector<float, kSize> offset = part.of(beta_total);
  for (int i = 0; i < kSize; ++i) {
    scale.values[i] *= rstd[i];
    slope.values[i] = rstd[i] * slope[i] / num_rows;
    offset.values[i] /= num_rows;
  }
  part.for_each_row(in.x.width, [&](int64_t at) {
    const Vector<T, kSize> values = load<kSize>(x + at);
    Vector<T, kSize> gradient = load<kSize>(dy + at);
    for (int i = 0; i < kSize; ++i) {
      const float centred = values[i] - mean[i];
      gradient.set(i, (gradient[i] - offset[i] - centred * slope[i]) * scale[i]);
    }
    store(dx + at, gradient);
  });
}

template <int kSize>
dim3 part_blocks(int64_t num_parts, int64_t width) {
  const int64_t strips = (width + kStripColumns<kSize> - 1) / kStripColumns<kSize>;
  return {static_cast<unsigned>(num_parts), static_cast<unsigned>(strips)};
}

// Returns the number of parts of an element-wise pass: eight rows for each warp.
int64_t num_parts(int64_t num_rows) {
  return std::clamp<int64_t>(num_rows / (8 * kStripWarps), 1, 148 * 16);
}

const dim3 kPartThreads(kWarp, kStripWarps);

}  // namespace

void batch_statistics_cuda(const BatchStatistics& in, void* stream) {
  auto* on = static_cast<cudaStream_t>(stream);
  with_cuda_type(in.x.type, [&](auto zero) {
    with_vector_size(fits_vectors(in.x.width, {in.x.data, in.partial.data}), [&](auto size) {
      slab_statistics_kernel<decltype(zero), size>
          <<<part_blocks<size>(in.partial.rows, in.x.width), kPartThreads, 0, on>>>(in);
    });
  });
  check_launch("batch statistics of slabs");
  const auto blocks = static_cast<unsigned>((in.x.width + kWarp - 1) / kWarp);
  combine_statistics_kernel<<<blocks, dim3(kWarp, kCombineWarps), 0, on>>>(in);
  check_launch("batch statistics");
}

void batch_norm_commit_cuda(const BatchNormCommit& in, void* stream) {
  const int64_t width = in.running_mean.num_elements();
  const auto blocks = static_cast<unsigned>((width + kCommitThreads - 1) / kCommitThreads);
  commit_kernel<<<blocks, kCommitThreads, 0, static_cast<cudaStream_t>(stream)>>>(in, width);
  check_launch("batch norm commit");
}

void batch_norm_forward_cuda(const BatchNormForward& in, void* stream) {
  const bool fits = fits_vectors(in.x.width, {in.x.data, in.y.data, in.mean.data, in.variance.data,
                                              in.gamma.data, in.beta.data});
  with_cuda_type(in.x.type, [&](auto zero) {
    with_vector_size(fits, [&](auto size) {
      forward_kernel<decltype(zero), size>
          <<<part_blocks<size>(num_parts(in.x.rows), in.x.width), kPartThreads, 0,
             static_cast<cudaStream_t>(stream)>>>(in);
    });
  });
  check_launch("batch norm forward");
}

void batch_norm_backward_cuda(const BatchNormBackward& in, bool has_constants, void* stream) {
  auto* on = static_cast<cudaStream_t>(stream);
  const bool fits =
      fits_vectors(in.x.width, {in.dy.data, in.x.data, in.dx.data, in.mean.data, in.variance.data,
                                in.gamma.data, in.partial.data, in.totals.data});
  const CudaSlabs slabs{
      .partial = data_of<float>(in.partial), .num_slabs = in.partial.rows, .width = in.x.width};
  with_cuda_type(in.x.type, [&](auto zero) {
    with_vector_size(fits, [&](auto size) {
      using T = decltype(zero);
      const dim3 blocks = part_blocks<size>(in.partial.rows, in.x.width);
      if (has_constants) {
        slab_backward_kernel<true, T, size><<<blocks, kPartThreads, 0, on>>>(in);
        return;
      }
      slab_backward_kernel<false, T, size><<<blocks, kPartThreads, 0, on>>>(in);
      auto* totals = data_of<float>(in.totals);
      cudaMemsetAsync(totals, 0, static_cast<size_t>(in.totals.num_elements()) * sizeof(float), on);
      add_slabs_cuda(slabs, totals, totals + in.x.width, stream);
      dx_kernel<T, size>
          <<<part_blocks<size>(num_parts(in.x.rows), in.x.width), kPartThreads, 0, on>>>(in);
    });
  });
  check_launch("batch norm backward");
  add_slabs_cuda(slabs, data_of<float>(in.grad_gamma), data_of<float>(in.grad_beta), stream);
}

}  // namespace sotto::kernels::detail
