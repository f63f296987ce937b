// What the trainer knows of a network. Forward and backward go through one micro-batch; what lies
// between them is on the tape, which the step owns.
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
#include "sotto/models/outline.h"
#include "sotto/models/scorer.h"
#include "sotto/models/tensor_file.h"
#include "sotto/nn/context.h"
#include "sotto/nn/parameters.h"
#include "sotto/nn/tape.h"

namespace sotto::models {

// The properties of the data that decide shapes.
struct DataShape {
  // Entries of the vocabulary; the blank among them.
  int64_t vocabulary = 0;
  int64_t blank = 0;
  // Width of stored features; 0 for audio and for text.
  int64_t feature_dim = 0;
};

struct Losses {
  // For each term of the outline [B] fp32, the loss of each utterance: not weighted.
  std::vector<at::Tensor> terms;
  // Places in the micro-batch of utterances that cannot be aligned; they count as 0.
  std::vector<int64_t> infeasible = {};
};

// Logits of all frames of a micro-batch, for CTC.
struct FrameScores {
  at::Tensor logits;  // [N, V]
  kernels::Packing packing;
  int64_t blank = 0;
};

// What a network says of a micro-batch without training: the losses of its labels, and what a
// search needs to find other ones. A language model has the losses alone.
struct Recognition {
  Losses losses;
  std::optional<FrameScores> frames = std::nullopt;
  std::unique_ptr<Scorer> scorer = nullptr;
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

  // The size of an item as limits of micro-batches count it.
  virtual data::ItemSize size_of(const data::ExampleSize& item) const = 0;

  // The losses of each utterance; `weights` says what each counts in the step's loss, the gradient
  // of which backward() adds to the parameters'. Terms count by their weights in the outline.
  virtual Losses forward(const data::MicroBatch& batch, const nn::StepContext& step,
                         std::span<const float> weights, nn::Tape& tape) = 0;
  virtual void backward(const data::MicroBatch& batch, const nn::StepContext& step,
                        nn::Tape& tape) = 0;

  // Without dropout and without keeping anything for a backward.
  virtual Recognition recognise(const data::MicroBatch& batch) = 0;

  // The weights under the names that they have in files: by default the parameters'.
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
