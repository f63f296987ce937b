// Arguments of the device versions of Transducer. Internal to the kernel, and without LibTorch.
#pragma once

#include <cstdint>

#include "sotto/kernels/base/cuda_array.h"

namespace sotto::kernels {

// An utterance of the pack. Positions are those of its first row in the pack.
struct TransducerUtterance {
  uint64_t key;  // of random draws
  int64_t first_node;
  int64_t first_frame;
  int64_t first_prediction;
  int64_t first_label;
  int32_t num_frames;
  int32_t num_labels;
  float weight;
  bool has_durations;  // false: RNN-T, whatever the network has
  bool is_feasible;    // otherwise it has no nodes

  constexpr int64_t row_size() const { return num_labels + 1; }
  constexpr int64_t num_nodes() const { return is_feasible ? num_frames * row_size() : 0; }
  constexpr int64_t node_at(int64_t frame, int64_t label) const {
    return first_node + frame * row_size() + label;
  }
};

// A node of the lattice by its rows in the pack.
struct TransducerNode {
  int32_t utterance;
  int32_t frame;
  int32_t prediction;
  int32_t label;  // the next one; -1 after the last
};

// What an emission may do: advance by `duration` frames, with a blank, a label, or either.
struct TransducerMove {
  int32_t duration;
  bool is_for_blank;
  bool is_for_label;
};

struct TransducerMoves {
  static constexpr int kMax = 16;

  TransducerMove at[kMax];
  int32_t count = 0;
};

// The numbers of a node, `size` floats. The first pass writes the log of the sum over the entries,
// the log-probabilities of the blank and of the next label (minus infinity after the last), and of
// each duration. The walk over the lattice replaces the latter by the weighted shares of all
// alignments that use them.
struct TransducerRecord {
  static constexpr int kLogSum = 0;  // NaN if a logit is not finite
  static constexpr int kBlank = 1;
  static constexpr int kLabel = 2;
  static constexpr int kDurations = 3;
};

// The lattices of a pack. Pointers are device pointers.
struct TransducerLattices {
  const TransducerUtterance* utterances = nullptr;  // [B]
  int64_t num_utterances = 0;
  TransducerNode* nodes = nullptr;  // [N]
  int64_t num_nodes = 0;
  const int32_t* labels = nullptr;  // of the pack
  float* records = nullptr;         // [N, 3 + D]
  // [N], 8 bytes each: probability of reaching a node, and of completing the utterance from it. A
  // logarithm in double on the CPU, an Extended on a GPU. `after` is null without gradient.
  void* before = nullptr;
  void* after = nullptr;
  float* loss = nullptr;       // [B]
  TransducerMoves rnnt_moves;  // a blank advances one frame, a label none
  TransducerMoves tdt_moves;
  int64_t num_entries = 0;
  int64_t num_durations = 0;
  int64_t blank = 0;
  float sigma = 0.0f;
  int64_t max_row_size = 0;  // maximum of U + 1
  DropoutRule dropout;

  constexpr int64_t record_size() const { return TransducerRecord::kDurations + num_durations; }
  constexpr const TransducerMoves& moves_of(const TransducerUtterance& u) const {
    return u.has_durations ? tdt_moves : rnnt_moves;
  }
};

// The nodes of a chunk.
struct TransducerChunk {
  int64_t first = 0;
  int64_t count = 0;

  constexpr int64_t end() const { return first + count; }
};

// Tensors of a chunk of R nodes.
struct CudaTransducerTensors {
  CudaArray encoder;     // [sum of T, J]
  CudaArray prediction;  // [sum of (U + 1), J]
  CudaArray joint;       // [R, J], values after the dropout
  CudaArray d_joint;     // [R, J], their gradient
  CudaArray logits;      // [R, E + D and padding], replaced by the gradient
};

// Rows of the encoder's gradient, or of the prediction network's, that nodes of a chunk add to.
struct TransducerRows {
  bool are_frames = true;
  int64_t first = 0;
  int64_t count = 0;

  constexpr int64_t start_of(const TransducerUtterance& u) const {
    return are_frames ? u.first_frame : u.first_prediction;
  }
};

// Returns the index of the last utterance for which start_of(utterance) is at most `position`. By
// first nodes this is the one that has the node: an utterance without nodes starts where the next
// one does.
template <class StartOf>
constexpr int64_t find_utterance(const TransducerLattices& lattices, int64_t position,
                                 StartOf start_of) {
  int64_t index = 0;
  int64_t end = lattices.num_utterances;
  while (index + 1 < end) {
    const int64_t middle = (index + end) / 2;
    if (start_of(lattices.utterances[middle]) <= position) {
      index = middle;
    } else {
      end = middle;
    }
  }
  return index;
}

// The nodes of a chunk that read one row: adjacent ones for a frame, and one frame of the lattice
// apart for a row of the prediction network.
struct TransducerRun {
  int64_t first = 0;  // in the chunk
  int64_t count = 0;
  int64_t stride = 1;

  // Returns those of a row of the pack.
  static constexpr TransducerRun of(const TransducerLattices& lattices,
                                    const TransducerChunk& chunk, const TransducerRows& rows,
                                    int64_t row) {
    const auto start_of = [=](const TransducerUtterance& u) { return rows.start_of(u); };
    const TransducerUtterance& u = lattices.utterances[find_utterance(lattices, row, start_of)];
    if (!u.is_feasible) return {};
    const int64_t place = row - rows.start_of(u);
    const int64_t first = rows.are_frames ? u.node_at(place, 0) : u.node_at(0, place);
    const int64_t stride = rows.are_frames ? 1 : u.row_size();
    const int64_t count = rows.are_frames ? u.row_size() : u.num_frames;
    // The number of nodes of the row before a node of the pack.
    const auto num_before = [=](int64_t node) {
      const int64_t past = node > first ? (node - first + stride - 1) / stride : 0;
      return past < count ? past : count;
    };
    const int64_t begin = num_before(chunk.first);
    return {.first = first + begin * stride - chunk.first,
            .count = num_before(chunk.end()) - begin,
            .stride = stride};
  }
};

}  // namespace sotto::kernels
