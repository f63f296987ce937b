// The output of an encoder trained as a transducer (RNN-T or TDT): a prediction network over the
// labels so far, a joint network that adds projections of both, and the loss over all alignments.
// N frames, M rows of the prediction network, D width of the encoder, J width of the joint network.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sotto/data/batch/micro_batch.h"
#include "sotto/kernels/loss/transducer.h"
#include "sotto/nn/context.h"
#include "sotto/nn/heads/prediction_network.h"
#include "sotto/nn/layers/linear.h"
#include "sotto/nn/parameters.h"
#include "sotto/nn/tape.h"

namespace sotto::nn {

struct TransducerHeadOptions {
  // Width of the encoder's result, and of the joint network.
  int64_t width = 1024;
  int64_t joint_width = 640;
  // Its vocabulary and blank are those of the joint network, too.
  PredictionNetworkOptions prediction;
  // Dropout after the joint network's ReLU.
  double joint_dropout = 0.2;
  // Frames by which each output of the duration head advances; none: RNN-T.
  std::vector<int64_t> durations = {};
  // For TDT: what is subtracted from the log-probabilities of entries, and the chance that an
  // utterance of a step has the loss of RNN-T instead.
  double sigma = 0.0;
  double omega = 0.0;
  // Maximum bytes of the logits of a chunk.
  int64_t chunk_bytes = kernels::Transducer::Options{}.chunk_bytes;
};

class TransducerHead {
 public:
  // Parameters are named NAME.encoder.weight, NAME.prediction.embedding.weight and so on. Its
  // number in the network follows those of the prediction network.
  TransducerHead(ParameterStore& store, const std::string& name,
                 const TransducerHeadOptions& options);

  // What the loss needs of a micro-batch, and the weight of each utterance in the step's loss.
  struct Objective {
    const kernels::Labels& labels;
    const data::DecoderPack& predictions;
    std::span<const float> weights = {};
  };

  struct Result {
    at::Tensor loss;  // [B]
    std::vector<int64_t> infeasible;
  };

  // Returns the losses of the last pack of the tape, encoded [N, D]. Also computes the gradient of
  // their weighted sum.
  Result forward(at::Tensor encoded, const Objective& objective, const StepContext& step,
                 Tape& tape) const;

  // Returns the gradient [N, D] of that weighted sum; accumulates into the parameters' gradients.
  at::Tensor backward(const data::DecoderPack& predictions, const StepContext& step,
                      Tape& tape) const;

  // Returns the losses only.
  Result evaluate(const at::Tensor& encoded, const kernels::Packing& packing,
                  const Objective& objective) const;

  // Decoding node by node. Both projections are to the width of the joint network: [N, J] and
  // [H, J].
  at::Tensor project_frames(const at::Tensor& encoded) const { return encoder_.forward(encoded); }
  at::Tensor project_labels(const at::Tensor& predicted) const {
    return projection_.forward(predicted);
  }
  // Returns the logits fp32 of the sums of projections [H, J].
  at::Tensor logits(const at::Tensor& sums) const;
  const PredictionNetwork& prediction() const { return prediction_; }
  const TransducerHeadOptions& options() const { return options_; }

 private:
  int64_t layer() const { return options_.prediction.first_layer + options_.prediction.layers; }
  kernels::Transducer::Options loss_options() const;

  TransducerHeadOptions options_;
  Linear encoder_;
  PredictionNetwork prediction_;
  Linear projection_;
  // Parameters of the output layer.
  Parameter& weight_;  // [V + durations, J]
  Parameter& bias_;    // [V + durations]
};

}  // namespace sotto::nn
