// The interface between the trainer and a network. Forward and backward process one micro-batch;
// tensors kept between them are on the tape, which the step owns.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sotto/data/batch/micro_batch.h"
#include "sotto/data/batch/step_packing.h"
#include "sotto/models/files/tensor_file.h"
#include "sotto/models/lattice_scorer.h"
#include "sotto/models/outline.h"
#include "sotto/models/scorer.h"
#include "sotto/nn/context.h"
#include "sotto/nn/parameters.h"
#include "sotto/nn/tape.h"

namespace sotto::models {

// The properties of the data that determine shapes.
struct DataShape {
  // Number of vocabulary entries including the blank.
  int64_t vocabulary = 0;
  int64_t blank = 0;
  // Width of stored features; 0 for audio and text.
  int64_t feature_dim = 0;
};

struct Losses {
  // Unweighted loss of each utterance, [B] fp32 per term of the outline.
  std::vector<at::Tensor> terms;
  // Positions in the micro-batch of utterances that cannot be aligned; their CTC loss counts as 0.
  std::vector<int64_t> infeasible = {};
};

// Logits of all frames of a micro-batch, for CTC.
struct FrameScores {
  at::Tensor logits;  // [N, V]
  kernels::Packing packing;
  int64_t blank = 0;
};

// Results of inference on a micro-batch: the losses of its labels, and the scores that a search
// over other labels needs. A language model has only the losses.
struct Recognition {
  Losses losses;
  std::optional<FrameScores> frames = std::nullopt;
  std::unique_ptr<Scorer> scorer = nullptr;
  std::unique_ptr<LatticeScorer> lattice = nullptr;
};

class Model {
 public:
  explicit Model(Outline outline) : outline_(std::move(outline)) {}
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const Outline& outline() const { return outline_; }
  int64_t num_layers() const { return outline_.num_blocks(); }
  int64_t num_tapes() const { return std::ssize(outline_.layers); }

  virtual nn::ParameterStore& parameters() = 0;

  // Returns the size of an item in the units of micro-batch limits.
  virtual data::ItemSize size_of(const data::ExampleSize& item) const = 0;

  // Returns the losses of each utterance; `weights`: the weight of each in the step's loss, whose
  // gradient backward() accumulates into the parameters' gradients. Terms are weighted as in the
  // outline.
  virtual Losses forward(const data::MicroBatch& batch, const nn::StepContext& step,
                         std::span<const float> weights, nn::Tape& tape) = 0;
  virtual void backward(const data::MicroBatch& batch, const nn::StepContext& step,
                        nn::Tape& tape) = 0;

  // Runs without dropout, and keeps nothing for backward.
  virtual Recognition recognise(const data::MicroBatch& batch) = 0;

  // Returns the weights under their names in files: by default those of the parameters.
  virtual std::vector<NamedTensor> named_weights() {
    std::vector<NamedTensor> named;
    for (const nn::Parameter& parameter : parameters().parameters())
      named.push_back({.name = parameter.spec.name, .tensor = parameter.value});
    return named;
  }

 private:
  Outline outline_;
};

}  // namespace sotto::models
