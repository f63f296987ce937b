// The transducer loss in double precision, by the definition: for tests.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "sotto/kernels/base/packing.h"
#include "sotto/kernels/elementwise/dropout.h"

namespace sotto::test {

// J width of the joint network, E entries, D durations.
struct TransducerPack {
  std::vector<int64_t> frames = {};
  std::vector<std::vector<int32_t>> labels = {};
  std::vector<float> weights = {};
  std::vector<UtteranceKey> keys = {};  // empty: the index in the pack
  std::vector<uint8_t> without_durations = {};
  std::vector<int64_t> durations = {};
  int64_t blank = 0;
  double sigma = 0.0;
  kernels::Dropout::Mask dropout = {};

  int64_t num_utterances() const { return static_cast<int64_t>(frames.size()); }
  // U + 1 of each utterance.
  std::vector<int64_t> predictions() const;
};

struct TransducerInputs {
  at::Tensor encoder;     // [sum of T, J]
  at::Tensor prediction;  // [sum of (U + 1), J]
  at::Tensor weight;      // [E + D, J]
  at::Tensor bias;        // [E + D]
};

struct TransducerProblem {
  TransducerPack pack;
  TransducerInputs inputs;  // fp32
};

struct TransducerSizes {
  int64_t width;
  int64_t entries;
};

// Draws that many labels for each utterance of a pack, weights where it has none, and inputs.
TransducerProblem draw_transducer(TransducerPack pack, const std::vector<int64_t>& num_labels,
                                  const TransducerSizes& sizes);

struct TransducerResults {
  at::Tensor loss;
  at::Tensor d_encoder;
  at::Tensor d_prediction;
  at::Tensor grad_weight;
  at::Tensor grad_bias;
  std::vector<int64_t> infeasible;
};

// Results from double inputs: probabilities by ATen, sums over alignments step by step, gradients
// by autograd and, through the sums, by differentiating each step.
TransducerResults transducer_reference(const TransducerPack& pack, const TransducerInputs& in);

// Results of the kernel, in the type of the inputs (the bias is fp32) and on their device, with
// chunks of `nodes` nodes.
TransducerResults run_transducer(const TransducerPack& pack, const TransducerInputs& in,
                                 int64_t nodes);

// The losses alone.
at::Tensor evaluate_transducer(const TransducerPack& pack, const TransducerInputs& in,
                               int64_t nodes);

}  // namespace sotto::test
