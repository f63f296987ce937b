#include "sotto/kernels/cuda/cuda_rows.cuh"
#include "sotto/kernels/cuda/cuda_slabs.cuh"
#include "sotto/kernels/norm/norm_arrays.h"

namespace sotto::kernels::detail {

namespace {

// Values used by all kernels here.
struct Shape {
  CudaPack pack;
  int64_t width;
  int64_t num_groups;

  __device__ int64_t group_channels() const { return width / num_groups; }
  __device__ int64_t first_piece(int64_t utterance) const {
    return first_piece_of(utterance, pack.starts[utterance]);
  }
  __device__ int64_t length(int64_t utterance) const {
    return pack.starts[utterance + 1] - pack.starts[utterance];
  }
  __device__ int64_t num_pieces(int64_t utterance) const {
    return (length(utterance) + kGroupNormPiece - 1) / kGroupNormPiece;
  }
  __device__ double group_size(int64_t utterance) const {
    return static_cast<double>(length(utterance) * group_channels());
  }
};

// The frames of the piece with index blockIdx.x; none if the index is unused.
struct Piece {
  int64_t utterance;
  int64_t begin;
  int64_t end;
};

__device__ Piece piece_of_block(const Shape& shape) {
  const int64_t index = blockIdx.x;
  int64_t utterance = 0;
  int64_t last = shape.pack.num_utterances - 1;
  while (utterance < last) {
    const int64_t middle = (utterance + last + 1) / 2;
    if (shape.first_piece(middle) <= index) {
      utterance = middle;
    } else {
      last = middle - 1;
    }
  }
  const int64_t begin =
      shape.pack.starts[utterance] + (index - shape.first_piece(utterance)) * kGroupNormPiece;
  const int64_t stop = shape.pack.starts[utterance + 1];
  return {.utterance = utterance, .begin = begin, .end = min(begin + kGroupNormPiece, stop)};
}

// The strip of channels with index blockIdx.y, and this thread's part of it.
template <int kSize>
struct Strip {
  int64_t first = static_cast<int64_t>(blockIdx.y) * kStripColumns<kSize>;
  int64_t channel = first + threadIdx.x * kSize;
};

// Returns the values of groups [B, G] for the channels from `channel` on; zeros past the last
// channel.
template <int kSize>
__device__ Vector<float, kSize> by_channel(const float* of_groups, const Shape& shape,
                                           int64_t utterance, int64_t channel) {
  Vector<float, kSize> values = zero_vector<float, kSize>();
  if (channel >= shape.width) return values;
  const float* of_utterance = of_groups + utterance * shape.num_groups;
  for (int i = 0; i < kSize; ++i)
    values.values[i] = of_utterance[(channel + i) / shape.group_channels()];
  return values;
}

// Calls body(at) for this thread's channels in its frames of a piece, warps in turn: `at` is the
// index in arrays like x.
template <class Body>
__device__ void for_each_frame(const Piece& piece, int64_t width, int64_t channel, Body body) {
  if (channel >= width) return;
#pragma unroll 4
  for (int64_t frame = piece.begin + threadIdx.y; frame < piece.end; frame += kStripWarps)
    body(frame * width + channel);
}

// --- forward

// Sums over the frames of a piece: of x, or if means are given of the squared distance from them.
// Two passes, because the one-pass formula loses the variance of a channel with a large mean.
template <class T, int kSize>
__global__ void piece_sums_kernel(const T* x, const float* means, float* pieces, Shape shape) {
  __shared__ alignas(16) float buffer[kStripWarps * kStripColumns<kSize>];
  const Piece piece = piece_of_block(shape);
  if (piece.begin >= piece.end) return;
  const Strip<kSize> strip;
  Vector<float, kSize> mean = zero_vector<float, kSize>();
  if (means != nullptr) mean = by_channel<kSize>(means, shape, piece.utterance, strip.channel);
  Vector<float, kSize> sums = zero_vector<float, kSize>();
  for_each_frame(piece, shape.width, strip.channel, [&](int64_t at) {
    const Vector<T, kSize> values = load<kSize>(x + at);
    for (int i = 0; i < kSize; ++i) {
      const float centred = values[i] - mean[i];
      sums.values[i] += means == nullptr ? centred : centred * centred;
    }
  });
  store_sum_over_y(sums, buffer, pieces + blockIdx.x * shape.width + strip.first,
                   shape.width - strip.first);
}

constexpr int kGroupThreads = 128;

// Returns the mean over an utterance and a group from the sums of pieces, with one block each. In
// double: an utterance has up to half a million frames before the first subsampling.
__device__ double group_mean(const float* pieces, const Shape& shape) {
  const int64_t utterance = blockIdx.x / shape.num_groups;
  const int64_t group = blockIdx.x % shape.num_groups;
  const int64_t channels = shape.group_channels();
  const float* from = pieces + shape.first_piece(utterance) * shape.width + group * channels;
  double sum = 0.0;
  for (int64_t i = threadIdx.x; i < shape.num_pieces(utterance) * channels; i += kGroupThreads)
    sum += from[i / channels * shape.width + i % channels];
  return team_sum(sum) / shape.group_size(utterance);
}

__global__ void means_kernel(const float* pieces, float* means, Shape shape) {
  const double mean = group_mean(pieces, shape);
  if (threadIdx.x == 0) means[blockIdx.x] = static_cast<float>(mean);
}

__global__ void rstds_kernel(const float* pieces, float* rstds, double epsilon, Shape shape) {
  const double variance = group_mean(pieces, shape);
  if (threadIdx.x == 0) rstds[blockIdx.x] = static_cast<float>(1.0 / sqrt(variance + epsilon));
}

template <class T, int kSize>
__global__ void forward_kernel(GroupNormForward in, Shape shape) {
  const T* x = static_cast<const T*>(in.x.data);
  T* y = static_cast<T*>(in.y.data);
  const Piece piece = piece_of_block(shape);
  const int64_t channel = Strip<kSize>().channel;
  if (channel >= shape.width) return;
  const auto mean =
      by_channel<kSize>(static_cast<const float*>(in.mean.data), shape, piece.utterance, channel);
  auto scale =
      by_channel<kSize>(static_cast<const float*>(in.rstd.data), shape, piece.utterance, channel);
  const auto gamma = load<kSize>(static_cast<const float*>(in.gamma.data) + channel);
  const auto shift = load<kSize>(static_cast<const float*>(in.beta.data) + channel);
  for (int i = 0; i < kSize; ++i) scale.values[i] *= gamma[i];
  for_each_frame(piece, shape.width, channel, [&](int64_t at) {
    Vector<T, kSize> values = load<kSize>(x + at);
    for (int i = 0; i < kSize; ++i) values.set(i, (values[i] - mean[i]) * scale[i] + shift[i]);
    store(y + at, values);
  });
}

// --- backward

// Sums over the frames of a piece: of dy x_hat for gamma, then of dy for beta. pieces [pieces, 2,
// D].
template <class T, int kSize>
__global__ void piece_gradients_kernel(GroupNormBackward in, Shape shape) {
  __shared__ alignas(16) float buffer[kStripWarps * kStripColumns<kSize>];
  const T* x = static_cast<const T*>(in.x.data);
  const T* dy = static_cast<const T*>(in.dy.data);
  const Piece piece = piece_of_block(shape);
  if (piece.begin >= piece.end) return;
  const Strip<kSize> strip;
  const auto mean = by_channel<kSize>(static_cast<const float*>(in.mean.data), shape,
                                      piece.utterance, strip.channel);
  const auto rstd = by_channel<kSize>(static_cast<const float*>(in.rstd.data), shape,
                                      piece.utterance, strip.channel);
  Vector<float, kSize> gamma_sum = zero_vector<float, kSize>();
  Vector<float, kSize> beta_sum = zero_vector<float, kSize>();
  for_each_frame(piece, shape.width, strip.channel, [&](int64_t at) {
    const Vector<T, kSize> values = load<kSize>(x + at);
    const Vector<T, kSize> gradient = load<kSize>(dy + at);
    for (int i = 0; i < kSize; ++i) {
      gamma_sum.values[i] += gradient[i] * (values[i] - mean[i]);
      beta_sum.values[i] += gradient[i];
    }
  });
  for (int i = 0; i < kSize; ++i) gamma_sum.values[i] *= rstd[i];
  float* to = static_cast<float*>(in.pieces.data) + blockIdx.x * 2 * shape.width + strip.first;
  store_sum_over_y(gamma_sum, buffer, to, shape.width - strip.first);
  store_sum_over_y(beta_sum, buffer, to + shape.width, shape.width - strip.first);
}

// Sums over the pieces of an utterance, blockIdx.y, for 32 of its 2 D sums: partial [B, 2 D].
__global__ void utterance_sums_kernel(const float* pieces, float* partial, Shape shape) {
  __shared__ alignas(16) float buffer[kStripWarps * kStripColumns<1>];
  const int64_t count = 2 * shape.width;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kStripColumns<1>;
  const int64_t column = first + threadIdx.x;
  const int64_t utterance = blockIdx.y;
  const float* from = pieces + shape.first_piece(utterance) * count + column;
  Vector<float, 1> sum = zero_vector<float, 1>();
  if (column < count) {
#pragma unroll 4
    for (int64_t piece = threadIdx.y; piece < shape.num_pieces(utterance); piece += kStripWarps)
      sum.values[0] += from[piece * count];
  }
  store_sum_over_y(sum, buffer, partial + utterance * count + first, count - first);
}

// Means over a group of g x_hat and of g = dy gamma: group_means [B, 2, G].
__global__ void group_means_kernel(GroupNormBackward in, Shape shape) {
  const int64_t utterance = blockIdx.x / shape.num_groups;
  const int64_t group = blockIdx.x % shape.num_groups;
  const int64_t channels = shape.group_channels();
  const float* gamma = static_cast<const float*>(in.gamma.data) + group * channels;
  const float* gamma_sums =
      static_cast<const float*>(in.partial.data) + utterance * 2 * shape.width + group * channels;
  const float* beta_sums = gamma_sums + shape.width;
  double g_x_hat = 0.0;
  double g = 0.0;
  for (int64_t c = threadIdx.x; c < channels; c += kGroupThreads) {
    g_x_hat += static_cast<double>(gamma[c]) * gamma_sums[c];
    g += static_cast<double>(gamma[c]) * beta_sums[c];
  }
  g_x_hat = team_sum(g_x_hat) / shape.group_size(utterance);
  g = team_sum(g) / shape.group_size(utterance);
  if (threadIdx.x > 0) return;
  float* to = static_cast<float*>(in.group_means.data) + utterance * 2 * shape.num_groups + group;
  to[0] = static_cast<float>(g_x_hat);
  to[shape.num_groups] = static_cast<float>(g);
}

template <class T, int kSize>
__global__ void backward_kernel(GroupNormBackward in, Shape shape) {
  const T* x = static_cast<const T*>(in.x.data);
  const T* dy = static_cast<const T*>(in.dy.data);
  T* dx = static_cast<T*>(in.dx.data);
  const Piece piece = piece_of_block(shape);
  const int64_t channel = Strip<kSize>().channel;
  if (channel >= shape.width) return;
  const auto of_groups = [&](const CudaArray& array, int64_t row) {
    return by_channel<kSize>(static_cast<const float*>(array.data), shape, row, channel);
  };
  const auto mean = of_groups(in.mean, piece.utterance);
  const auto rstd = of_groups(in.rstd, piece.utterance);
  auto slope = of_groups(in.group_means, 2 * piece.utterance);
  const auto g_mean = of_groups(in.group_means, 2 * piece.utterance + 1);
  const auto gamma = load<kSize>(static_cast<const float*>(in.gamma.data) + channel);
  for (int i = 0; i < kSize; ++i) slope.values[i] *= rstd[i];
  for_each_frame(piece, shape.width, channel, [&](int64_t at) {
    Vector<T, kSize> values = load<kSize>(x + at);
    const Vector<T, kSize> gradient = load<kSize>(dy + at);
    for (int i = 0; i < kSize; ++i) {
      const float centred = values[i] - mean[i];
      values.set(i, (gradient[i] * gamma[i] - g_mean[i] - centred * slope[i]) * rstd[i]);
    }
    store(dx + at, values);
  });
}

template <int kSize>
dim3 strip_blocks(int64_t num_pieces, int64_t width) {
  const int64_t strips = (width + kStripColumns<kSize> - 1) / kStripColumns<kSize>;
  return {static_cast<unsigned>(num_pieces), static_cast<unsigned>(strips)};
}

}  // namespace

void group_norm_forward_cuda(const GroupNormForward& in, const CudaPack& pack, void* stream) {
  const Shape shape{.pack = pack, .width = in.x.width, .num_groups = in.mean.width};
  const auto groups = static_cast<unsigned>(in.mean.num_elements());
  const bool fits =
      fits_vectors(in.x.width, {in.x.data, in.y.data, in.gamma.data, in.beta.data, in.pieces.data});
  auto* on = static_cast<cudaStream_t>(stream);
  auto* pieces = data_of<float>(in.pieces);
  auto* means = data_of<float>(in.mean);
  with_cuda_type(in.x.type, [&](auto zero) {
    with_vector_size(fits, [&](auto size) {
      using T = decltype(zero);
      const dim3 blocks = strip_blocks<size>(in.pieces.rows, in.x.width);
      const dim3 threads(32, kStripWarps);
      piece_sums_kernel<T, size>
          <<<blocks, threads, 0, on>>>(data_of<T>(in.x), nullptr, pieces, shape);
      means_kernel<<<groups, kGroupThreads, 0, on>>>(pieces, means, shape);
      piece_sums_kernel<T, size>
          <<<blocks, threads, 0, on>>>(data_of<T>(in.x), means, pieces, shape);
      rstds_kernel<<<groups, kGroupThreads, 0, on>>>(pieces, data_of<float>(in.rstd), in.epsilon,
                                                     shape);
      forward_kernel<T, size><<<blocks, threads, 0, on>>>(in, shape);
    });
  });
  check_launch("group norm forward");
}

void group_norm_backward_cuda(const GroupNormBackward& in, const CudaPack& pack, void* stream) {
  const Shape shape{.pack = pack, .width = in.x.width, .num_groups = in.mean.width};
  const auto groups = static_cast<unsigned>(in.mean.num_elements());
  const bool fits =
      fits_vectors(in.x.width, {in.dy.data, in.x.data, in.dx.data, in.gamma.data, in.pieces.data});
  auto* on = static_cast<cudaStream_t>(stream);
  auto* partial = data_of<float>(in.partial);
  with_cuda_type(in.x.type, [&](auto zero) {
    with_vector_size(fits, [&](auto size) {
      using T = decltype(zero);
      const dim3 blocks = strip_blocks<size>(in.pieces.rows, in.x.width);
      const dim3 threads(32, kStripWarps);
      const dim3 sums(static_cast<unsigned>((2 * in.x.width + 31) / 32),
                      static_cast<unsigned>(pack.num_utterances));
      piece_gradients_kernel<T, size><<<blocks, threads, 0, on>>>(in, shape);
      utterance_sums_kernel<<<sums, threads, 0, on>>>(data_of<float>(in.pieces), partial, shape);
      group_means_kernel<<<groups, kGroupThreads, 0, on>>>(in, shape);
      backward_kernel<T, size><<<blocks, threads, 0, on>>>(in, shape);
    });
  });
  check_launch("group norm backward");
  add_slabs_cuda({.partial = partial, .num_slabs = pack.num_utterances, .width = in.x.width},
                 data_of<float>(in.grad_gamma), data_of<float>(in.grad_beta), stream);
}

}  // namespace sotto::kernels::detail
