// AdamW over the ranges of a parameter store, with its state. n values of a range.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
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

class Optimizer {
 public:
  // Allocates zeroed moments for all ranges of the store, which must outlive it.
  Optimizer(nn::ParameterStore& store, const OptimizerOptions& options);

  // The norm of all gradients together.
  double gradient_norm() const;

  // What gradients of that norm are multiplied by.
  double clip_scale(double gradient_norm) const;

  struct Update {
    int64_t step = 1;         // from 1
    int64_t total_steps = 1;  // of the run, for the schedule
    double gradient_scale = 1.0;
  };

  // Updates all weights. Allocates nothing, so that it cannot stop half way.
  void step(const Update& update);

  double rate(int64_t step, int64_t total_steps) const {
    return rate_at(options_.schedule, step, total_steps);
  }

  // The state of one parameter, as views in its shape: for checkpoints.
  struct State {
    std::string name;
    at::Tensor first_moment;
    at::Tensor second_moment;
  };
  std::vector<State> states() const;

 private:
  struct Moments {
    at::Tensor first;   // [n] fp32
    at::Tensor second;  // [n] fp32
  };

  nn::ParameterStore& store_;
  OptimizerOptions options_;
  std::vector<Moments> moments_;  // one for each range
};

}  // namespace sotto::optim
