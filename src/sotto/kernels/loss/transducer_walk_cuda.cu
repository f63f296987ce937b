// The sums over all alignments. A block processes an utterance along the diagonals of its lattice,
// on which frame + labels are equal: every move leads to a later diagonal. Another block does the
// same from the end. Probabilities are extended floats (cuda_extended.cuh): as logarithms in fp32
// they would reach thousands for a long utterance, and the gradient would be off by as much as
// their resolution there.

#include <algorithm>
#include <cmath>

#include "sotto/kernels/cuda/cuda_extended.cuh"
#include "sotto/kernels/cuda/cuda_rows.cuh"
#include "sotto/kernels/loss/transducer_task.h"

namespace sotto::kernels::detail {

namespace {

using Record = TransducerRecord;

constexpr int kMaxWalkThreads = 512;

// One utterance, by one block or by one thread per node.
class Walk {
 public:
  __device__ Walk(const TransducerLattices& lattices, const TransducerUtterance& utterance)
      : lattices_(lattices),
        utterance_(utterance),
        moves_(lattices.moves_of(utterance)),
        num_frames_(utterance.num_frames),
        num_labels_(utterance.num_labels),
        before_(static_cast<Extended*>(lattices.before)),
        after_(static_cast<Extended*>(lattices.after)) {}

  __device__ bool is_finite() const {
    bool is_nan = false;
    for (int64_t i = threadIdx.x; i < utterance_.num_nodes(); i += blockDim.x)
      is_nan = is_nan || isnan(record(utterance_.first_node + i)[Record::kLogSum]);
    return __syncthreads_or(is_nan ? 1 : 0) == 0;
  }

  // Computes the probabilities of reaching each node.
  __device__ void run_forward() const {
    for (int diagonal = 0; diagonal < num_frames_ + num_labels_; ++diagonal) {
      for_each_on(diagonal, [&](int frame, int label) {
        before_[node_at(frame, label)] =
            frame + label == 0 ? Extended{1.0f, 0} : reach(frame, label);
      });
    }
  }

  // Returns the loss. Must be called after run_forward.
  __device__ float loss() const {
    Extended sum;
    for (int i = 0; i < moves_.count; ++i) {
      const TransducerMove& move = moves_.at[i];
      if (move.is_for_blank && move.duration <= num_frames_)
        sum = add(sum, arrival(num_frames_ - move.duration, num_labels_, i, Record::kBlank));
    }
    constexpr double kLn2 = 0.693147180559945309417;
    return static_cast<float>(
        fmax(0.0, -(log(static_cast<double>(sum.mantissa)) + sum.exponent * kLn2)));
  }

  // Computes the probabilities of completing the utterance from each node.
  __device__ void run_backward() const {
    for (int diagonal = num_frames_ + num_labels_ - 1; diagonal >= 0; --diagonal) {
      for_each_on(diagonal, [&](int frame, int label) {
        Extended sum;
        for_each_departure(frame, label, [&](int move, int symbol, const Extended& rest) {
          sum = add(sum, multiply(probability(node_at(frame, label), move, symbol), rest));
        });
        after_[node_at(frame, label)] = normalise(sum);
      });
    }
  }

  // Replaces the log-probabilities of a node by its shares. Must be called after both.
  __device__ void write_shares(int frame, int label) const {
    const int64_t node = node_at(frame, label);
    const Extended all = after_[utterance_.first_node];  // of the whole utterance
    const Extended outside = {before_[node].mantissa * (utterance_.weight / all.mantissa),
                              before_[node].exponent - all.exponent};
    float* of_node = record(node);
    float of_blank = 0.0f, of_label = 0.0f;
    float of_moves[TransducerMoves::kMax] = {};
    for_each_departure(frame, label, [&](int move, int symbol, const Extended& rest) {
      const Extended product = multiply(multiply(outside, probability(node, move, symbol)), rest);
      const float share = product.mantissa * power_of_two(product.exponent);
      (symbol == Record::kBlank ? of_blank : of_label) += share;
      of_moves[move] += share;
    });
    of_node[Record::kBlank] = of_blank;
    of_node[Record::kLabel] = of_label;
    for (int i = 0; i < static_cast<int>(lattices_.num_durations); ++i)
      of_node[Record::kDurations + i] = utterance_.has_durations ? of_moves[i] : 0.0f;
  }

  __device__ void fill_shares(int frame, int label, float value) const {
    float* of_node = record(node_at(frame, label));
    for (int i = Record::kBlank; i < static_cast<int>(lattices_.record_size()); ++i)
      of_node[i] = value;
  }

 private:
  __device__ int64_t node_at(int frame, int label) const {
    return utterance_.node_at(frame, label);
  }
  __device__ float* record(int64_t node) const {
    return lattices_.records + node * lattices_.record_size();
  }

  // Calls body(frame, label) for the nodes of a diagonal, and waits for all of them.
  template <class Body>
  __device__ void for_each_on(int diagonal, Body body) const {
    const int first = max(0, diagonal - num_frames_ + 1);
    const int last = min(num_labels_, diagonal);
    for (int label = first + static_cast<int>(threadIdx.x); label <= last;
         label += static_cast<int>(blockDim.x)) {
      body(diagonal - label, label);
    }
    __syncthreads();
  }

  // Returns the probability of a move from a node, by the blank or by the next label.
  __device__ Extended probability(int64_t node, int move, int symbol) const {
    const float* of_node = record(node);
    const float log = of_node[symbol];
    if (!utterance_.has_durations) return extended_exp(log);
    return extended_exp(log - lattices_.sigma + of_node[Record::kDurations + move]);
  }

  // Returns the probability of reaching a node and moving on from it.
  __device__ Extended arrival(int frame, int label, int move, int symbol) const {
    const int64_t node = node_at(frame, label);
    return multiply(before_[node], probability(node, move, symbol));
  }

  __device__ Extended reach(int frame, int label) const {
    Extended sum;
    for (int i = 0; i < moves_.count; ++i) {
      const TransducerMove& move = moves_.at[i];
      const int from = frame - move.duration;
      if (from < 0) continue;
      if (move.is_for_blank) sum = add(sum, arrival(from, label, i, Record::kBlank));
      if (move.is_for_label && label > 0)
        sum = add(sum, arrival(from, label - 1, i, Record::kLabel));
    }
    return normalise(sum);
  }

  // Calls body(move, symbol, probability of completing the utterance after it). The last move is a
  // blank that ends exactly after the last frame.
  template <class Body>
  __device__ void for_each_departure(int frame, int label, Body body) const {
    for (int i = 0; i < moves_.count; ++i) {
      const TransducerMove& move = moves_.at[i];
      const int to = frame + move.duration;
      if (move.is_for_blank && to == num_frames_ && label == num_labels_)
        body(i, Record::kBlank, Extended{1.0f, 0});
      if (to >= num_frames_) continue;
      if (move.is_for_blank) body(i, Record::kBlank, after_[node_at(to, label)]);
      if (move.is_for_label && label < num_labels_)
        body(i, Record::kLabel, after_[node_at(to, label + 1)]);
    }
  }

  const TransducerLattices& lattices_;
  const TransducerUtterance& utterance_;
  const TransducerMoves& moves_;
  const int num_frames_;
  const int num_labels_;
  Extended* const before_;
  Extended* const after_;
};

__global__ void __launch_bounds__(kMaxWalkThreads) walk_kernel(TransducerLattices lattices) {
  const TransducerUtterance& utterance = lattices.utterances[blockIdx.x];
  const bool is_forward = blockIdx.y == 0;
  const bool writes = is_forward && threadIdx.x == 0;
  if (!utterance.is_feasible) {
    if (writes) lattices.loss[blockIdx.x] = 0.0f;
    return;
  }
  const Walk walk(lattices, utterance);
  if (!walk.is_finite()) {
    if (writes) lattices.loss[blockIdx.x] = NAN;
  } else if (is_forward) {
    walk.run_forward();
    if (writes) lattices.loss[blockIdx.x] = walk.loss();
  } else {
    walk.run_backward();
  }
}

__global__ void shares_kernel(TransducerLattices lattices) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; index < lattices.num_nodes; index += stride) {
    const TransducerNode node = lattices.nodes[index];
    const TransducerUtterance& utterance = lattices.utterances[node.utterance];
    const Walk walk(lattices, utterance);
    const int frame = node.frame - static_cast<int>(utterance.first_frame);
    const int label = node.prediction - static_cast<int>(utterance.first_prediction);
    const float loss = lattices.loss[node.utterance];
    if (isnan(loss)) {
      walk.fill_shares(frame, label, loss);
    } else {
      walk.write_shares(frame, label);
    }
  }
}

}  // namespace

void transducer_walk_cuda(const TransducerLattices& lattices, void* stream) {
  auto* const cuda_stream = static_cast<cudaStream_t>(stream);
  const int64_t threads = std::clamp<int64_t>((lattices.max_row_size + kWarp - 1) / kWarp * kWarp,
                                              kWarp, kMaxWalkThreads);
  const dim3 blocks(static_cast<unsigned>(lattices.num_utterances),
                    lattices.after != nullptr ? 2 : 1);
  walk_kernel<<<blocks, static_cast<unsigned>(threads), 0, cuda_stream>>>(lattices);
  check_launch("transducer");
  if (lattices.after == nullptr || lattices.num_nodes == 0) return;
  const LaunchShape shape = launch_shape(lattices.num_nodes);
  shares_kernel<<<shape.blocks, shape.threads, 0, cuda_stream>>>(lattices);
  check_launch("transducer");
}

}  // namespace sotto::kernels::detail
