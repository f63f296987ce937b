// The parts of the loss that process the nodes of a chunk: the joint network, the softmax of a node
// by one block, and the sums over nodes in a fixed order.

#include "sotto/kernels/cuda/cuda_pack.cuh"
#include "sotto/kernels/cuda/cuda_slabs.cuh"
#include "sotto/kernels/loss/row_softmax.cuh"
#include "sotto/kernels/loss/transducer_task.h"

namespace sotto::kernels::detail {

namespace {

using Record = TransducerRecord;

__global__ void nodes_kernel(TransducerLattices lattices) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  int64_t node = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; node < lattices.num_nodes; node += stride) {
    const int64_t index =
        find_utterance(lattices, node, [](const TransducerUtterance& u) { return u.first_node; });
    const TransducerUtterance& u = lattices.utterances[index];
    const int64_t place = node - u.first_node;
    const auto frame = static_cast<int32_t>(place / u.row_size());
    const auto label = static_cast<int32_t>(place % u.row_size());
    lattices.nodes[node] = {static_cast<int32_t>(index),
                            static_cast<int32_t>(u.first_frame) + frame,
                            static_cast<int32_t>(u.first_prediction) + label,
                            label < u.num_labels ? lattices.labels[u.first_label + label] : -1};
  }
}

template <class T, int kSize>
__global__ void joint_kernel(TransducerLattices lattices, TransducerChunk chunk,
                             CudaTransducerTensors tensors) {
  const int64_t width = tensors.joint.width;
  const DropoutRule& rule = lattices.dropout;
  for_each_row(chunk.count, [&](int64_t row) {
    const TransducerNode node = lattices.nodes[chunk.first + row];
    const TransducerUtterance& u = lattices.utterances[node.utterance];
    const int64_t first_element = (chunk.first + row - u.first_node) * width;
    const T* encoder = data_of<T>(tensors.encoder) + node.frame * width;
    const T* prediction = data_of<T>(tensors.prediction) + node.prediction * width;
    T* to = data_of<T>(tensors.joint) + row * width;
    for_each_column<kSize>(width, [&](int64_t column) {
      Vector<T, kSize> x = load<kSize>(encoder + column);
      const Vector<T, kSize> other = load<kSize>(prediction + column);
      DropoutFactors<kSize> factors;
      if (rule.threshold > 0) {
        factors = dropout_factors<kSize>(rule, u.key, first_element + column);
      } else {
        for (int i = 0; i < kSize; ++i) factors.at[i] = rule.factor;
      }
      for (int i = 0; i < kSize; ++i) {
        const float sum = x[i] + other[i];
        x.set(i, (sum < 0.0f ? 0.0f : sum) * factors.at[i]);  // lets a NaN through
      }
      store(to + column, x);
    });
  });
}

// Returns the log of the sum of exponentials of at most kWarp numbers to all lanes of a warp; NaN
// if one is not finite.
template <class T>
__device__ float warp_log_sum(const T* x, int count) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const float value = lane < count ? static_cast<float>(x[lane]) : -INFINITY;
  const float largest = warp_largest(value);
  const float term = lane < count ? expf(value - largest) + (value - value) : 0.0f;
  return largest + logf(warp_sum(term));
}

template <class T>
__global__ void __launch_bounds__(kMaxLogitsThreads)
    read_kernel(TransducerLattices lattices, TransducerChunk chunk, CudaArray logits) {
  const int64_t node = chunk.first + blockIdx.x;
  const T* row = data_of<T>(logits) + static_cast<int64_t>(blockIdx.x) * logits.width;
  float* record = lattices.records + node * lattices.record_size();
  RowSums sums;
  for_each_part(row, static_cast<int>(lattices.num_entries),
                [&](int column, auto size) { sums.add(load<size>(row + column)); });
  sums.join_team();
  if (threadIdx.x >= kWarp) return;

  float log_sum = sums.largest + logf(sums.total);
  const T* durations = row + lattices.num_entries;
  const auto num_durations = static_cast<int>(lattices.num_durations);
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    const int32_t label = lattices.nodes[node].label;
    record[Record::kBlank] = static_cast<float>(row[lattices.blank]) - log_sum;
    record[Record::kLabel] = label < 0 ? -INFINITY : static_cast<float>(row[label]) - log_sum;
  }
  if (num_durations > 0) {
    const float of_durations = warp_log_sum(durations, num_durations);
    if (thread < num_durations)
      record[Record::kDurations + thread] = static_cast<float>(durations[thread]) - of_durations;
    log_sum += of_durations - of_durations;  // NaN if a duration's logit is not finite
  }
  if (thread == 0) record[Record::kLogSum] = log_sum;
}

// Replaces logits by the sum of the shares times their probability, minus their own share.
template <class T>
__global__ void __launch_bounds__(kMaxLogitsThreads)
    gradient_kernel(TransducerLattices lattices, TransducerChunk chunk, CudaArray logits) {
  const int64_t node = chunk.first + blockIdx.x;
  T* row = data_of<T>(logits) + static_cast<int64_t>(blockIdx.x) * logits.width;
  const float* record = lattices.records + node * lattices.record_size();
  const float log_sum = record[Record::kLogSum];
  const float of_blank = record[Record::kBlank], of_label = record[Record::kLabel];
  const float total = of_blank + of_label;
  const auto blank = static_cast<int>(lattices.blank);
  const int label = lattices.nodes[node].label;
  for_each_part(row, static_cast<int>(lattices.num_entries), [&](int column, auto size) {
    constexpr int kSize = decltype(size)::value;
    Vector<T, kSize> x = load<kSize>(row + column);
    for (int i = 0; i < kSize; ++i) {
      float own = column + i == blank ? of_blank : 0.0f;
      if (column + i == label) own = of_label;
      x.set(i, __expf(x[i] - log_sum) * total - own);
    }
    store(row + column, x);
  });
  const auto num_durations = static_cast<int>(lattices.num_durations);
  if (num_durations == 0 || threadIdx.x >= kWarp) return;

  const auto thread = static_cast<int>(threadIdx.x);
  T* durations = row + lattices.num_entries;
  const float of_durations = warp_log_sum(durations, num_durations);
  const float share = thread < num_durations ? record[Record::kDurations + thread] : 0.0f;
  const float all_shares = warp_sum(share);
  if (thread < num_durations) {
    const float probability = expf(static_cast<float>(durations[thread]) - of_durations);
    durations[thread] = static_cast<T>(probability * all_shares - share);
  }
}

// A block sums the nodes of one row for one strip of columns. An element passes its gradient on if
// it is not 0: it was neither negative nor dropped.
template <class T, int kSize>
__global__ void sum_kernel(TransducerLattices lattices, TransducerChunk chunk,
                           CudaTransducerTensors tensors, TransducerRows rows, float* sum) {
  __shared__ alignas(16) float buffer[kStripWarps * kStripColumns<kSize>];
  const int64_t row = rows.first + blockIdx.x;
  const TransducerRun run = TransducerRun::of(lattices, chunk, rows, row);
  if (run.count == 0) return;
  const int64_t width = tensors.joint.width;
  const int64_t first = static_cast<int64_t>(blockIdx.y) * kStripColumns<kSize>;
  const int64_t column = first + threadIdx.x * kSize;
  const T* joint = data_of<T>(tensors.joint);
  const T* gradient = data_of<T>(tensors.d_joint);
  const float factor = lattices.dropout.factor;
  float* to = sum + row * width + first;
  Vector<float, kSize> sums = zero_vector<float, kSize>();
  if (column < width) {
    // The sum of earlier chunks.
    if (threadIdx.y == 0) sums = load<kSize>(sum + row * width + column);
#pragma unroll 4
    for (int64_t k = threadIdx.y; k < run.count; k += kStripWarps) {
      const int64_t at = (run.first + k * run.stride) * width + column;
      const Vector<T, kSize> values = load<kSize>(joint + at);
      const Vector<T, kSize> passed = load<kSize>(gradient + at);
      for (int i = 0; i < kSize; ++i)
        sums.values[i] += values[i] == 0.0f ? 0.0f : passed[i] * factor;
    }
  }
  store_sum_over_y(sums, buffer, to, width - first);
}

}  // namespace

void transducer_nodes_cuda(const TransducerLattices& lattices, void* stream) {
  if (lattices.num_nodes == 0) return;
  const LaunchShape shape = launch_shape(lattices.num_nodes);
  nodes_kernel<<<shape.blocks, shape.threads, 0, static_cast<cudaStream_t>(stream)>>>(lattices);
  check_launch("transducer");
}

void transducer_joint_cuda(const TransducerLattices& lattices, const TransducerChunk& chunk,
                           const CudaTransducerTensors& tensors, void* stream) {
  const int64_t width = tensors.joint.width;
  const bool fits =
      fits_vectors(width, {tensors.encoder.data, tensors.prediction.data, tensors.joint.data});
  with_cuda_type(tensors.joint.type, [&](auto zero) {
    with_vector_size(fits, [&](auto size) {
      using T = decltype(zero);
      const RowGrid grid = row_grid(chunk.count, (width + size - 1) / size);
      joint_kernel<T, size><<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(
          lattices, chunk, tensors);
    });
  });
  check_launch("transducer");
}

void transducer_read_cuda(const TransducerLattices& lattices, const TransducerChunk& chunk,
                          const CudaTransducerTensors& tensors, void* stream) {
  with_cuda_type(tensors.logits.type, [&](auto zero) {
    using T = decltype(zero);
    read_kernel<T><<<static_cast<unsigned>(chunk.count), logits_threads(lattices.num_entries), 0,
                     static_cast<cudaStream_t>(stream)>>>(lattices, chunk, tensors.logits);
  });
  check_launch("transducer");
}

void transducer_gradient_cuda(const TransducerLattices& lattices, const TransducerChunk& chunk,
                              const CudaTransducerTensors& tensors, void* stream) {
  with_cuda_type(tensors.logits.type, [&](auto zero) {
    using T = decltype(zero);
    gradient_kernel<T><<<static_cast<unsigned>(chunk.count), logits_threads(lattices.num_entries),
                         0, static_cast<cudaStream_t>(stream)>>>(lattices, chunk, tensors.logits);
  });
  check_launch("transducer");
}

void transducer_sum_cuda(const TransducerLattices& lattices, const TransducerChunk& chunk,
                         const CudaTransducerTensors& tensors, const TransducerRows& rows,
                         float* sum, void* stream) {
  const int64_t width = tensors.joint.width;
  const bool fits = fits_vectors(width, {tensors.joint.data, tensors.d_joint.data, sum});
  with_cuda_type(tensors.joint.type, [&](auto zero) {
    with_vector_size(fits, [&](auto size) {
      using T = decltype(zero);
      const int64_t strips = (width + kStripColumns<size> - 1) / kStripColumns<size>;
      const dim3 blocks(static_cast<unsigned>(rows.count), static_cast<unsigned>(strips));
      sum_kernel<T, size><<<blocks, dim3(32, kStripWarps), 0, static_cast<cudaStream_t>(stream)>>>(
          lattices, chunk, tensors, rows, sum);
    });
  });
  check_launch("transducer");
}

}  // namespace sotto::kernels::detail
