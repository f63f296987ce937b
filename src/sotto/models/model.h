// What the trainer knows of a network. Forward and backward go through one micro-batch; what lies
// between them is on the tape, which the step owns.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sotto/data/batch/micro_batch.h"
#include "sotto/kernels/loss/ctc.h"
#include "sotto/kernels/loss/ctc_greedy.h"
#include "sotto/models/tensor_file.h"
#include "sotto/nn/context.h"
#include "sotto/nn/parameters.h"
#include "sotto/nn/tape.h"

namespace sotto::models {

// What of the data decides shapes.
struct DataShape {
  // Entries of the vocabulary; the blank among them.
  int64_t vocabulary = 0;
  int64_t blank = 0;
  // Width of stored features; 0 for audio and for text.
  int64_t feature_dim = 0;
};

struct Losses {
  // [B] fp32, of each utterance: not weighted.
  at::Tensor loss;
  // Places in the micro-batch of utterances that cannot be aligned; they count as 0.
  std::vector<int64_t> infeasible = {};
};

inline Losses losses_of(kernels::Ctc::Result result) {
  return {.loss = std::move(result.loss), .infeasible = std::move(result.infeasible)};
}

class Model {
 public:
  virtual ~Model() = default;

  virtual nn::ParameterStore& parameters() = 0;

  // Layers that a user counts, and those that have a tape, which are numbered behind them.
  virtual int64_t num_layers() const = 0;
  virtual int64_t num_tapes() const = 0;

  // Frames of the encoder for an utterance of `rows` samples or stored frames: what limits count.
  virtual int64_t num_frames(int64_t rows) const = 0;

  // What the names of parameters begin with that a step leaves out, and does not update.
  virtual std::vector<std::string> left_out(const nn::StepContext&) const { return {}; }

  // The loss of each utterance; `weights` says what each counts in the step's loss, whose gradient
  // backward() adds to the parameters'.
  virtual Losses forward(const data::MicroBatch& batch, const nn::StepContext& step,
                         std::span<const float> weights, nn::Tape& tape) = 0;
  virtual void backward(const data::MicroBatch& batch, const nn::StepContext& step,
                        nn::Tape& tape) = 0;

  struct Recognised {
    // Of the labels that the batch has.
    Losses loss;
    // What was heard in each utterance; nothing from a network that does not listen.
    std::vector<std::vector<kernels::CtcGreedy::Label>> labels = {};
    // Of all frames [N, V], and the frames of each utterance.
    at::Tensor logits = {};
    std::vector<int64_t> num_frames = {};
  };

  // Without dropout and without keeping anything.
  virtual Recognised recognise(const data::MicroBatch& batch) = 0;

  // The weights under the names that they have in files: by default the parameters'.
  virtual std::vector<NamedTensor> named_weights() {
    std::vector<NamedTensor> named;
    for (const nn::Parameter& parameter : parameters().parameters())
      named.push_back({.name = parameter.spec.name, .tensor = parameter.value});
    return named;
  }
};

}  // namespace sotto::models
