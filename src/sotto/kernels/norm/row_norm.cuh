// The CUDA version of LayerNorm and RmsNorm: shared code, the latter without mean and beta.
#pragma once

#include "sotto/kernels/cuda/cuda_rows.cuh"
#include "sotto/kernels/cuda/cuda_slabs.cuh"
#include "sotto/kernels/norm/norm_arrays.h"

namespace sotto::kernels {

enum class RowNorm { kLayer, kRms };

template <class T>
struct NormForwardRows {
  const T* x;
  T* y;
  const float* gamma;
  const float* beta;
  float* mean;
  float* rstd;
  float epsilon;
  int64_t rows;
  int width;
};

template <RowNorm kNorm, class T, int kSize, int kHeld>
__global__ void __launch_bounds__(kMaxRowThreads) norm_forward_kernel(NormForwardRows<T> in) {
  constexpr bool kHasMean = kNorm == RowNorm::kLayer;
  const int64_t row = team_row();
  if (row >= in.rows) return;  // a whole warp, which is the team of the row
  const auto width = static_cast<float>(in.width);
  const TeamRow<T, kSize, kHeld> x(in.x + row * in.width, in.width);
  float mean = 0.0f;
  if constexpr (kHasMean) {
    float sum = 0.0f;
    x.for_each([&](int index, int column) {
      const Vector<T, kSize> values = x.at(index, column);
      for (int i = 0; i < kSize; ++i) sum += values[i];
    });
    mean = team_sum(sum) / width;
  }
  // Two passes: the one-pass formula loses the variance of a row with a large mean.
  float squares = 0.0f;
  x.for_each([&](int index, int column) {
    const Vector<T, kSize> values = x.at(index, column);
    for (int i = 0; i < kSize; ++i) {
      const float centred = values[i] - mean;
      squares += centred * centred;
    }
  });
  const float rstd = 1.0f / sqrtf(team_sum(squares) / width + in.epsilon);
  if (threadIdx.x == 0) {
    if constexpr (kHasMean) in.mean[row] = mean;
    in.rstd[row] = rstd;
  }
  T* y = in.y + row * in.width;
  x.for_each([&](int index, int column) {
    Vector<T, kSize> values = x.at(index, column);
    const Vector<float, kSize> gamma = load<kSize>(in.gamma + column);
    Vector<float, kSize> beta = zero_vector<float, kSize>();
    if constexpr (kHasMean) beta = load<kSize>(in.beta + column);
    for (int i = 0; i < kSize; ++i) values.set(i, (values[i] - mean) * rstd * gamma[i] + beta[i]);
    store(y + column, values);
  });
}

template <class T>
struct NormBackwardRows {
  const T* dy;
  const T* x;
  const T* residual;  // or null
  T* dx;
  const float* mean;
  const float* rstd;
  const float* gamma;
  float* partial;
  int64_t rows;
  int width;
};

// One vector of a row and the statistics of the row.
template <class T, int kSize>
struct NormRowPart {
  Vector<T, kSize> dy;
  Vector<T, kSize> x;
  float mean = 0.0f;
  float rstd = 0.0f;

  __device__ float x_hat(int i) const { return (x[i] - mean) * rstd; }
};

template <RowNorm kNorm, class T, int kSize>
__device__ NormRowPart<T, kSize> load_part(const NormBackwardRows<T>& in, int64_t row, int column) {
  NormRowPart<T, kSize> part;
  part.dy = load<kSize>(in.dy + row * in.width + column);
  part.x = load<kSize>(in.x + row * in.width + column);
  if constexpr (kNorm == RowNorm::kLayer) part.mean = in.mean[row];
  part.rstd = in.rstd[row];
  return part;
}

template <class T, int kSize>
__device__ NormRowPart<T, kSize> empty_part() {
  NormRowPart<T, kSize> part;
  part.dy = zero_vector<T, kSize>();
  part.x = zero_vector<T, kSize>();
  return part;
}

// Sums over a row: of g = dy gamma, and of g x_hat.
struct NormRowSums {
  float g;
  float g_x_hat;
};

// Returns zeros if there is no residual.
template <int kSize, class T>
__device__ Vector<T, kSize> load_residual(const NormBackwardRows<T>& in, int64_t at) {
  return in.residual == nullptr ? zero_vector<T, kSize>() : load<kSize>(in.residual + at);
}

template <RowNorm kNorm, class T, int kSize>
__device__ Vector<T, kSize> dx_of(const NormRowPart<T, kSize>& part,
                                  const Vector<float, kSize>& gamma, const NormRowSums& means,
                                  const Vector<T, kSize>& residual) {
  Vector<T, kSize> dx;
  for (int i = 0; i < kSize; ++i) {
    float value = part.dy[i] * gamma[i] - part.x_hat(i) * means.g_x_hat;
    if constexpr (kNorm == RowNorm::kLayer) value -= means.g;
    dx.set(i, value * part.rstd + residual[i]);
  }
  return dx;
}

// Sums over the team's row, for blocks with several teams of several warps; called by all threads
// of the block. `turn` counts the calls: two sets of numbers alternate, so that one barrier is
// enough.
__device__ inline NormRowSums sum_over_team(NormRowSums sums, int turn) {
  __shared__ NormRowSums of_warps[2][kWarp];
  sums.g = warp_sum(sums.g);
  sums.g_x_hat = warp_sum(sums.g_x_hat);
  const int num_warps = static_cast<int>(blockDim.x) / kWarp;
  if (num_warps == 1) return sums;
  NormRowSums* of_team = of_warps[turn % 2] + threadIdx.y * num_warps;
  if (threadIdx.x % kWarp == 0) of_team[threadIdx.x / kWarp] = sums;
  __syncthreads();
  sums = {.g = 0.0f, .g_x_hat = 0.0f};
  for (int warp = 0; warp < num_warps; ++warp) {
    sums.g += of_team[warp].g;
    sums.g_x_hat += of_team[warp].g_x_hat;
  }
  return sums;
}

// A team of that many threads processes rows of up to 5,120 elements in vectors.
inline constexpr int kMaxTeamThreads = 640;
// Teams of fewer threads share a block of up to this many: then two blocks fit, with the registers
// that they need.
inline constexpr int kSharedBlockThreads = 256;
// Rows that are prefetched while one is processed: 64 bytes per thread.
template <class T>
inline constexpr int kRowsAhead = sizeof(T) == 2 ? 2 : 1;

// A block processes the rows of a slab, its teams in turn; a thread has the same columns of all of
// them, and accumulates the parameters' gradients in registers. dy, x and the residual are read
// once.
template <RowNorm kNorm, class T, int kSize>
__global__ void __launch_bounds__(kMaxTeamThreads) norm_backward_kernel(NormBackwardRows<T> in) {
  constexpr int64_t kVectors = kNorm == RowNorm::kLayer ? 2 : 1;
  __shared__ alignas(16) float buffer[kSharedBlockThreads * kSize];
  const int64_t begin = in.rows * blockIdx.x / gridDim.x;
  const int64_t end = in.rows * (blockIdx.x + 1) / gridDim.x;
  const int column = static_cast<int>(threadIdx.x) * kSize;
  const bool is_inside = column < in.width;
  const auto width = static_cast<float>(in.width);
  Vector<float, kSize> gamma = zero_vector<float, kSize>();
  if (is_inside) gamma = load<kSize>(in.gamma + column);
  Vector<float, kSize> gamma_sum = zero_vector<float, kSize>();
  Vector<float, kSize> beta_sum = zero_vector<float, kSize>();

  // Zeros past the end: they change no sum.
  const auto part_of = [&](int64_t row) {
    return is_inside && row < end ? load_part<kNorm, T, kSize>(in, row, column)
                                  : empty_part<T, kSize>();
  };
  constexpr int kAhead = kRowsAhead<T>;
  NormRowPart<T, kSize> ahead[kAhead];
  for (int i = 0; i < kAhead; ++i) ahead[i] = part_of(begin + threadIdx.y + i * blockDim.y);
  int turn = 0;
  for (int64_t first = begin; first < end; first += blockDim.y, ++turn) {
    const int64_t row = first + threadIdx.y;
    const NormRowPart<T, kSize> part = ahead[0];
    for (int i = 1; i < kAhead; ++i) ahead[i - 1] = ahead[i];
    ahead[kAhead - 1] = part_of(row + kAhead * blockDim.y);
    const int64_t at = row * in.width + column;
    const bool has_row = is_inside && row < end;
    // Loaded before the barrier, so that the load is in flight meanwhile.
    const Vector<T, kSize> residual =
        has_row ? load_residual<kSize>(in, at) : zero_vector<T, kSize>();
    NormRowSums sums{.g = 0.0f, .g_x_hat = 0.0f};
    for (int i = 0; i < kSize; ++i) {
      const float dy_x_hat = part.dy[i] * part.x_hat(i);
      gamma_sum.values[i] += dy_x_hat;
      beta_sum.values[i] += part.dy[i];
      sums.g += part.dy[i] * gamma[i];
      sums.g_x_hat += dy_x_hat * gamma[i];
    }
    sums = sum_over_team(sums, turn);
    const NormRowSums means{.g = sums.g / width, .g_x_hat = sums.g_x_hat / width};
    if (has_row) store(in.dx + at, dx_of<kNorm>(part, gamma, means, residual));
  }

  float* partial = in.partial + blockIdx.x * kVectors * in.width;
  store_sum_over_y(gamma_sum, buffer, partial, in.width);
  if constexpr (kVectors == 2) store_sum_over_y(beta_sum, buffer, partial + in.width, in.width);
}

// The variant for rows that are too wide: the sums are in the workspace, and a row is read twice.
template <RowNorm kNorm, class T, int kSize>
__global__ void norm_backward_wide_kernel(NormBackwardRows<T> in) {
  constexpr int64_t kVectors = kNorm == RowNorm::kLayer ? 2 : 1;
  const int64_t begin = in.rows * blockIdx.x / gridDim.x;
  const int64_t end = in.rows * (blockIdx.x + 1) / gridDim.x;
  const auto width = static_cast<float>(in.width);
  float* gamma_sum = in.partial + blockIdx.x * kVectors * in.width;
  float* beta_sum = gamma_sum + in.width;
  for (int64_t row = begin; row < end; ++row) {
    NormRowSums sums{.g = 0.0f, .g_x_hat = 0.0f};
    for_each_column<kSize>(in.width, [&](int64_t column) {
      const auto part = load_part<kNorm, T, kSize>(in, row, static_cast<int>(column));
      for (int i = 0; i < kSize; ++i) {
        const float dy_x_hat = part.dy[i] * part.x_hat(i);
        const float gamma = in.gamma[column + i];
        sums.g += part.dy[i] * gamma;
        sums.g_x_hat += dy_x_hat * gamma;
        gamma_sum[column + i] = (row == begin ? 0.0f : gamma_sum[column + i]) + dy_x_hat;
        if constexpr (kVectors == 2)
          beta_sum[column + i] = (row == begin ? 0.0f : beta_sum[column + i]) + part.dy[i];
      }
    });
    const NormRowSums means{.g = team_sum(sums.g) / width,
                            .g_x_hat = team_sum(sums.g_x_hat) / width};
    for_each_column<kSize>(in.width, [&](int64_t column) {
      const auto part = load_part<kNorm, T, kSize>(in, row, static_cast<int>(column));
      const int64_t at = row * in.width + column;
      const Vector<float, kSize> gamma = load<kSize>(in.gamma + column);
      store(in.dx + at, dx_of<kNorm>(part, gamma, means, load_residual<kSize>(in, at)));
    });
  }
}

template <RowNorm kNorm>
void row_norm_forward(const RowNormForward& in, void* stream) {
  const bool fits = fits_vectors(in.x.width, {in.x.data, in.y.data, in.gamma.data, in.beta.data});
  with_cuda_type(in.x.type, [&](auto zero) {
    with_vector_size(fits, [&](auto size) {
      const TeamGrid grid = team_grid(in.x.rows, (in.x.width + size - 1) / size);
      with_held_vectors(grid, [&](auto held) {
        using T = decltype(zero);
        norm_forward_kernel<kNorm, T, size, held>
            <<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(
                {.x = data_of<T>(in.x),
                 .y = data_of<T>(in.y),
                 .gamma = data_of<float>(in.gamma),
                 .beta = data_of<float>(in.beta),
                 .mean = data_of<float>(in.mean),
                 .rstd = data_of<float>(in.rstd),
                 .epsilon = in.epsilon,
                 .rows = in.x.rows,
                 .width = static_cast<int>(in.x.width)});
      });
    });
  });
  check_launch("norm forward");
}

template <RowNorm kNorm, class T, int kSize>
void launch_norm_backward(const NormBackwardRows<T>& rows, int64_t num_slabs, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(num_slabs);
  const int64_t num_vectors = (rows.width + kSize - 1) / kSize;
  if (num_vectors > kMaxTeamThreads) {
    norm_backward_wide_kernel<kNorm, T, kSize><<<blocks, kSharedBlockThreads, 0, stream>>>(rows);
    return;
  }
  const auto team = static_cast<unsigned>((num_vectors + kWarp - 1) / kWarp * kWarp);
  const dim3 threads(team, std::max(1u, kSharedBlockThreads / team));
  norm_backward_kernel<kNorm, T, kSize><<<blocks, threads, 0, stream>>>(rows);
}

template <RowNorm kNorm>
void row_norm_backward(const RowNormBackward& in, void* stream) {
  const bool fits = fits_vectors(in.x.width, {in.dy.data, in.x.data, in.residual.data, in.dx.data,
                                              in.gamma.data, in.partial.data});
  with_cuda_type(in.x.type, [&](auto zero) {
    with_vector_size(fits, [&](auto size) {
      using T = decltype(zero);
      launch_norm_backward<kNorm, T, size>({.dy = data_of<T>(in.dy),
                                            .x = data_of<T>(in.x),
                                            .residual = data_of<T>(in.residual),
                                            .dx = data_of<T>(in.dx),
                                            .mean = data_of<float>(in.mean),
                                            .rstd = data_of<float>(in.rstd),
                                            .gamma = data_of<float>(in.gamma),
                                            .partial = data_of<float>(in.partial),
                                            .rows = in.x.rows,
                                            .width = static_cast<int>(in.x.width)},
                                           in.num_slabs, static_cast<cudaStream_t>(stream));
    });
  });
  check_launch("norm backward");
  detail::add_slabs_cuda(
      {.partial = data_of<float>(in.partial), .num_slabs = in.num_slabs, .width = in.x.width},
      data_of<float>(in.grad_gamma), data_of<float>(in.grad_beta), stream);
}

}  // namespace sotto::kernels
