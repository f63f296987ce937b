// What the trainer knows of a network. Forward and backward go through one micro-batch; what lies
// between them is on the tape, which the step owns.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sotto/data/micro_batch.h"
#include "sotto/kernels/ctc.h"
#include "sotto/kernels/ctc_greedy.h"
#include "sotto/nn/context.h"
#include "sotto/nn/parameters.h"
#include "sotto/nn/tape.h"

namespace sotto::models {

class Model {
 public:
  virtual ~Model() = default;

  virtual nn::ParameterStore& parameters() = 0;

  // Layers that have a tier of their own.
  virtual int64_t num_layers() const = 0;

  // Frames of the encoder for an utterance of `rows` samples or stored frames: what limits count.
  virtual int64_t num_frames(int64_t rows) const = 0;

  // The loss of each utterance; `weights` says what each counts in the step's loss, whose gradient
  // backward() adds to the parameters'.
  virtual kernels::Ctc::Result forward(const data::MicroBatch& batch, const nn::StepContext& step,
                                       std::span<const float> weights, nn::Tape& tape) = 0;
  virtual void backward(const data::MicroBatch& batch, const nn::StepContext& step,
                        nn::Tape& tape) = 0;

  struct Recognised {
    // The losses of the labels that the batch has.
    kernels::Ctc::Result loss;
    std::vector<std::vector<kernels::CtcGreedy::Label>> labels;
  };

  // Without dropout and without keeping anything.
  virtual Recognised recognise(const data::MicroBatch& batch) = 0;
};

}  // namespace sotto::models
