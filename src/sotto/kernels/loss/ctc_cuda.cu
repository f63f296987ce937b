// Three kernels: the softmax of every frame; one block per utterance, which runs the recursion
// forward and back over its frames and writes the gradient of the blank and of its labels to the
// logits; and the gradient of all other entries, which is just their probability.

#include <algorithm>
#include <limits>

#include "sotto/kernels/cuda/cuda_launch.cuh"
#include "sotto/kernels/cuda/cuda_rows.cuh"
#include "sotto/kernels/cuda/cuda_vector.cuh"
#include "sotto/kernels/loss/ctc_lattice.h"
#include "sotto/kernels/loss/ctc_walk.cuh"

namespace sotto::kernels::detail {

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// --- the softmax of every frame

template <class T, int kSize, int kHeld>
__global__ void softmax_kernel(CudaCtc problem) {
  const int64_t frame = team_row();
  if (frame >= problem.logits.rows) return;
  const auto width = static_cast<int>(problem.logits.width);
  const TeamRow<T, kSize, kHeld> row(static_cast<const T*>(problem.logits.data) + frame * width,
                                     width);
  // Ignores NaN.
  float largest = -std::numeric_limits<float>::infinity();
  row.for_each([&](int index, int column) {
    const Vector<T, kSize> x = row.at(index, column);
    for (int i = 0; i < kSize; ++i) largest = fmaxf(largest, x[i]);
  });
  largest = team_largest(largest);
  float sum = 0.0f;
  row.for_each([&](int index, int column) {
    const Vector<T, kSize> x = row.at(index, column);
    // x - x is 0, or NaN if x is not finite: minus infinity is a failure too, not a probability of
    // 0.
    for (int i = 0; i < kSize; ++i) sum += __expf(x[i] - largest) + (x[i] - x[i]);
  });
  sum = team_sum(sum);
  if (threadIdx.x == 0) {
    problem.softmax[2 * frame] = largest;
    problem.softmax[2 * frame + 1] = 1.0f / sum;
  }
}

template <class T>
void launch_softmax(const CudaCtc& problem, cudaStream_t stream) {
  const bool fits = fits_vectors(problem.logits.width, {problem.logits.data});
  with_vector_size(fits, [&](auto size) {
    constexpr int kSize = decltype(size)::value;
    const TeamGrid grid = team_grid(problem.logits.rows, problem.logits.width / kSize);
    with_held_vectors(grid, [&](auto held) {
      softmax_kernel<T, kSize, decltype(held)::value>
          <<<grid.blocks, grid.threads, 0, stream>>>(problem);
    });
  });
}

// --- the walk

constexpr int kMaxWalkThreads = 512;
// Four rows of mantissas and exponents, two states for each position of the lattice.
constexpr int64_t kWalkBytesPerPosition = 4 * 2 * 8;

template <class T, bool kInShared>
__device__ float loss_of(const CudaCtc& problem, const CtcUtterance& utterance,
                         const ExtendedArray& shared) {
  if (!utterance.is_feasible) return 0.0f;
  CtcWalk<T, kInShared> walk(problem, utterance, shared);
  if (!walk.is_finite()) return kNan;
  const float loss = walk.run_forward();
  if (problem.with_gradient) walk.run_backward();
  return loss;
}

template <class T>
__global__ void __launch_bounds__(kMaxWalkThreads) walk_kernel(CudaCtc problem, int shared_bytes) {
  extern __shared__ int32_t rows[];
  const CtcUtterance& utterance = problem.utterances[blockIdx.x];
  const int64_t width = utterance.lattice.width;
  const ExtendedArray shared = {reinterpret_cast<float*>(rows), rows + 8 * width};
  const float loss = kWalkBytesPerPosition * width <= shared_bytes
                         ? loss_of<T, true>(problem, utterance, shared)
                         : loss_of<T, false>(problem, utterance, shared);
  if (threadIdx.x == 0) problem.loss[utterance.index] = loss;
}

// Uses one thread per position, and enough warps for the gradients of a segment.
template <class T>
void launch_walk(const CudaCtc& problem, cudaStream_t stream) {
  const int64_t num_positions = problem.max_labels + 1;
  const int64_t threads =
      std::clamp<int64_t>((num_positions + kWarp - 1) / kWarp * kWarp, 256, kMaxWalkThreads);
  const int64_t width = num_positions + CtcLattice::kLanes;
  const auto shared_bytes =
      static_cast<unsigned>(std::min(CudaCtc::kMaxSharedBytes, kWalkBytesPerPosition * width));
  walk_kernel<T><<<static_cast<unsigned>(problem.num_utterances), static_cast<unsigned>(threads),
                   shared_bytes, stream>>>(problem, static_cast<int>(shared_bytes));
}

// --- the gradient of all entries except the blank and the labels

// A bit for each entry of the vocabulary.
class EntrySet {
 public:
  __device__ EntrySet(unsigned* words, int64_t num_entries) : words_(words) {
    for (int64_t word = thread(); word < (num_entries + 31) / 32; word += num_threads())
      words_[word] = 0;
    __syncthreads();
  }

  // Inserts the labels of an utterance and the blank.
  __device__ void insert(const int32_t* labels, int64_t num_labels, int64_t blank) {
    for (int64_t i = thread(); i <= num_labels; i += num_threads()) {
      const int64_t entry = i < num_labels ? labels[i] : blank;
      atomicOr(words_ + entry / 32, 1u << (entry % 32));
    }
    __syncthreads();
  }

  // Bit i: whether `first` + i is in the set. `first` is a multiple of eight, or only its own bit
  // is valid.
  __device__ unsigned bits_from(int first) const { return words_[first / 32] >> (first % 32); }

 private:
  __device__ static int64_t thread() { return threadIdx.y * blockDim.x + threadIdx.x; }
  __device__ static int64_t num_threads() { return blockDim.x * blockDim.y; }

  unsigned* words_;
};

// The part of an utterance's frames that one block processes.
struct FramePart {
  int64_t begin;
  int64_t end;

  __device__ FramePart(const CtcUtterance& utterance, unsigned part, unsigned num_parts)
      : begin(utterance.first_frame + utterance.lattice.num_frames * part / num_parts),
        end(utterance.first_frame + utterance.lattice.num_frames * (part + 1) / num_parts) {}

  // Calls body(frame) for the frames of this thread.
  template <class Body>
  __device__ void for_each(Body body) const {
    for (int64_t frame = begin + threadIdx.y; frame < end; frame += blockDim.y) body(frame);
  }
};

template <class T, int kSize>
__global__ void gradient_kernel(CudaCtc problem, unsigned num_parts) {
  extern __shared__ unsigned words[];
  const CtcUtterance utterance = problem.utterances[blockIdx.x / num_parts];
  const FramePart part(utterance, blockIdx.x % num_parts, num_parts);
  const int64_t width = problem.logits.width;
  T* logits = static_cast<T*>(problem.logits.data);
  if (!utterance.is_feasible || isnan(problem.loss[utterance.index])) {
    Vector<T, kSize> same;
    for (int i = 0; i < kSize; ++i) same.set(i, utterance.is_feasible ? kNan : 0.0f);
    part.for_each([&](int64_t frame) {
      T* row = logits + frame * width;
      for_each_column<kSize>(width, [&](int64_t column) { store(row + column, same); });
    });
    return;
  }
  EntrySet is_written(words, width);
  is_written.insert(problem.labels + utterance.first_label, utterance.lattice.num_labels,
                    problem.blank);
  part.for_each([&](int64_t frame) {
    T* row = logits + frame * width;
    const float largest = problem.softmax[2 * frame];
    const float scale = problem.softmax[2 * frame + 1] * utterance.weight;
    for_each_column<kSize>(width, [&](int64_t column) {
      Vector<T, kSize> x = load<kSize>(row + column);
      const unsigned written = is_written.bits_from(static_cast<int>(column));
      for (int i = 0; i < kSize; ++i) {
        if ((written >> i & 1) == 0) x.set(i, __expf(x[i] - largest) * scale);
      }
      store(row + column, x);
    });
  });
}

template <class T>
void launch_gradient(const CudaCtc& problem, cudaStream_t stream) {
  const bool fits = fits_vectors(problem.logits.width, {problem.logits.data});
  with_vector_size(fits, [&](auto size) {
    constexpr int kSize = decltype(size)::value;
    const RowGrid grid = row_grid(problem.logits.rows, problem.logits.width / kSize);
    const auto num_utterances = static_cast<unsigned>(problem.num_utterances);
    const unsigned num_parts = std::max(1u, grid.blocks.x / num_utterances);
    const auto set_bytes = static_cast<unsigned>((problem.logits.width + 31) / 32 * 4);
    gradient_kernel<T, kSize>
        <<<num_utterances * num_parts, grid.threads, set_bytes, stream>>>(problem, num_parts);
  });
}

}  // namespace

void ctc_cuda(const CudaCtc& problem, void* stream) {
  auto* const cuda_stream = static_cast<cudaStream_t>(stream);
  with_cuda_type(problem.logits.type, [&](auto zero) {
    using T = decltype(zero);
    launch_softmax<T>(problem, cuda_stream);
    launch_walk<T>(problem, cuda_stream);
    if (problem.with_gradient) launch_gradient<T>(problem, cuda_stream);
  });
  check_launch("ctc");
}

}  // namespace sotto::kernels::detail
