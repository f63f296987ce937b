// AdamW over the ranges of a parameter store, with its state. n values of a range.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sotto/core/options.h"
#include "sotto/nn/parameters.h"
#include "sotto/optim/schedule.h"

namespace sotto::optim {

struct OptimizerOptions {
  ScheduleOptions schedule;
  double beta1 = 0.9;
  double beta2 = 0.98;
  double epsilon = 1e-8;
  // Of matrices; norms and biases do not decay.
  double weight_decay = 0.01;
  // The gradients' norm is brought down to it; 0: never.
  double clip_norm = 1.0;

  void visit(OptionVisitor& visitor);
};

// In a step: measure_gradients(), step(), and then gradient_norm() for who wants to know. On a GPU
// the first two only hand work to the device; the clipping happens there.
class Optimizer {
 public:
  // Allocates zeroed state for all ranges of the store that train; the store must outlive it.
  Optimizer(nn::ParameterStore& store, const OptimizerOptions& options);

  // Takes the norm of all gradients together, for step() and gradient_norm(). Allocates workspace
  // alone.
  void measure_gradients();

  struct Update {
    int64_t step = 1;         // from 1
    int64_t total_steps = 1;  // of the run, for the schedule
    // What gradients are multiplied by before they are clipped: one over the scale of the loss.
    double gradient_scale = 1.0;
    // Parameters whose names begin with one of these stay as they are: layers that the step left
    // out.
    std::vector<std::string> left_out = {};
  };

  // Updates all weights with the gradients that were measured; none where their norm is not finite.
  // Allocates nothing, so that it cannot stop half way.
  void step(const Update& update);

  // What measure_gradients() found, of the gradients as they lie in memory. Waits for the device. 0
  // in a dry run.
  double gradient_norm() const;

  double rate(int64_t step, int64_t total_steps) const {
    return rate_at(options_.schedule, step, total_steps);
  }

  // The state of one parameter, as views in its shape: for checkpoints.
  struct State {
    std::string name;
    at::Tensor first_moment;
    at::Tensor second_moment;
    at::Tensor remainder;  // undefined with fp32 weights
  };
  std::vector<State> states() const;
  // What bf16 weights leave out, by the names of parameters; empty with fp32 weights.
  std::map<std::string, at::Tensor> remainders() const;

 private:
  // Of a range.
  struct Flat {
    at::Tensor first_moment;   // [n] fp32
    at::Tensor second_moment;  // [n] fp32
    at::Tensor remainder;      // [n] int16, what bf16 weights leave out; undefined with fp32
  };

  // Values first .. first + count of a range.
  struct Piece {
    size_t range = 0;
    int64_t first = 0;
    int64_t count = 0;
  };
  // What an update changes, in pieces as long as can be.
  std::vector<Piece> pieces_without(const std::vector<std::string>& left_out) const;
  // The range that holds a parameter, and where in it; a frozen one has no state.
  std::optional<Piece> place_of(const nn::Parameter& parameter) const;

  nn::ParameterStore& store_;
  OptimizerOptions options_;
  std::vector<Flat> flats_;  // one for each range; empty for a frozen one
  at::Tensor square_sum_;    // [1] fp64, of all gradients
};

}  // namespace sotto::optim
