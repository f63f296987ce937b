// The loss of a transducer on a pack, with its joint network: RNN-T (Graves 2012), or TDT (Xu et
// al. 2023) if the network has durations. The output layer is a part of this kernel, so that the
// logits of the whole lattice never exist.
//
// B utterances with T frames and U labels each, J width of the joint network, E entries including
// the blank, D durations. The lattice of an utterance has T (U + 1) nodes (t, u), at which u labels
// have been emitted before frame t; N nodes of all utterances. The logits of a node are
//   dropout(relu(encoder[t] + prediction[u])) weight^T + bias.
//
// The nodes are numbered in one sequence (by utterance, frame, number of labels) and processed in
// chunks. The first pass keeps a few numbers for each node, from which the sums over all alignments
// are computed; the second computes the logits again, and from them the gradients. Forward
// therefore receives the weight of each utterance in the sum of losses. Logits and their gradient
// have the type of the projections; everything computed from them is fp32, and the probabilities of
// partial alignments have an exponent of their own, so that no lattice is too long.
//
// Allocates: loss; in forward d_encoder and d_prediction. As workspace, for each node (3 + D)
// floats, 16 bytes of description and the probabilities before and after it (8 bytes each;
// evaluate: only before); for a chunk of R nodes the logits [R, E + D], with rows padded to a
// multiple of eight, the joint network's activations [R, J] and in forward their gradient [R, J],
// in the type of the projections, and the workspace of Gemm; in forward the gradient of the bias in
// fp32, with a 16-bit type d_encoder and d_prediction in fp32, and the workspace of ColumnSum; some
// 100 bytes for each utterance. The bytes depend only on shapes and lengths.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "sotto/kernels/base/labels.h"
#include "sotto/kernels/base/packing.h"
#include "sotto/kernels/elementwise/dropout.h"

namespace sotto::kernels {

struct Transducer {
  // Maximum number of durations.
  static constexpr int64_t kMaxDurations = 16;
  static constexpr int64_t kNodeStep = 64;

  struct Options {
    int64_t blank = 0;
    // Frames that an emission of TDT may advance, one for each of the last outputs; different, and
    // not negative. Empty: RNN-T, where a blank advances one frame and a label none.
    std::vector<int64_t> durations = {};
    // Subtracted from the log-probabilities of entries, not of durations (TDT). Not
    // used for the utterances that have the loss of RNN-T.
    double sigma = 0.0;
    // Maximum bytes of the logits of a chunk. A chunk has the most nodes that fit, in multiples of
    // kNodeStep and at least that many. 64 MiB are 4,032 nodes of 8,198 outputs in 16 bits.
    int64_t chunk_bytes = int64_t{64} << 20;
  };

  struct Inputs {
    const at::Tensor& encoder;     // [sum of T, J]
    const at::Tensor& prediction;  // [sum of (U + 1), J], type of encoder
    const at::Tensor& weight;      // [E + D, J], type of encoder
    const at::Tensor& bias;        // [E + D] fp32
    const Packing& frames;
    const Packing& predictions;  // U + 1 rows for each utterance
    const Labels& labels;
    // Applied after the ReLU, keyed by utterance, t and u.
    Dropout::Mask dropout = {};
    // For a network with durations: one value per utterance, not 0 if its loss is that of RNN-T
    // over the entries alone (omega of NeMo's TDT loss). Empty: none.
    std::span<const uint8_t> without_durations = {};
  };

  // Gradients that are added to, in fp32; null if the parameter is frozen.
  struct Gradients {
    at::Tensor* weight = nullptr;  // [E + D, J]
    at::Tensor* bias = nullptr;    // [E + D]
  };

  struct Result {
    // [B] fp32, the negative log-likelihood of each utterance's labels: not weighted, 0 if
    // infeasible, NaN if a logit of the utterance is NaN or infinite.
    at::Tensor loss;
    // Indices in the pack of the utterances that no alignment fits.
    std::vector<int64_t> infeasible;
    // [sum of T, J] and [sum of (U + 1), J], type of encoder: the gradients of the sum of
    // weights[u]
    // * loss[u]; 0 for infeasible utterances, NaN where the loss is NaN. Undefined from evaluate.
    at::Tensor d_encoder;
    at::Tensor d_prediction;
  };

  // Returns the losses and the gradients of the projections, and adds to those of the output layer.
  // Throws DataError for a label that is the blank or not in the vocabulary.
  static Result forward(const Inputs& in, std::span<const float> weights,
                        const Gradients& gradients, const Options& options);

  // Returns only the losses, bitwise equal to those of forward.
  static Result evaluate(const Inputs& in, const Options& options);

  // Returns whether an alignment exists: durations that lead exactly to the end, the last of them a
  // blank's. For RNN-T, and with the durations 0 and 1, there is one from the first frame on.
  static bool is_feasible(int64_t num_frames, int64_t num_labels,
                          std::span<const int64_t> durations);
};

}  // namespace sotto::kernels
