// AdamW over the ranges of a parameter store, with its state. n values of a range.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sotto/core/config/options.h"
#include "sotto/nn/parameters.h"
#include "sotto/optim/schedule.h"
#include "sotto/optim/state.h"

namespace sotto::optim {

struct OptimizerOptions {
  ScheduleOptions schedule;
  double beta1 = 0.9;
  double beta2 = 0.98;
  double epsilon = 1e-8;
  // Weight decay of matrices; norms and biases do not decay.
  double weight_decay = 0.01;
  // Maximum norm of the gradients, which are scaled down to it; 0: no clipping.
  double clip_norm = 1.0;
  // "head.=10": parameters whose names begin with head. have ten times the schedule's rate. The
  // longest matching prefix applies.
  std::vector<std::string> rate_factors = {};
  // Where moments and remainders are stored.
  StateLocation state = StateLocation::kDevice;

  void visit(OptionVisitor& visitor);
  void validate() const;
};

// One of `rate_factors`.
struct RateFactor {
  std::string prefix;
  double factor = 1.0;

  // Throws ConfigError where the text is invalid.
  static RateFactor parse(const std::string& text);
};

// Steps of a run that did not change parameters. torch counts the steps that did, and the bias
// correction of the moments uses that count.
struct SkippedSteps {
  // Steps that changed no parameter: gradients were not finite, or there was no data.
  int64_t of_all = 0;
  // Additional steps that skipped a layer, by the prefix of its parameters' names.
  std::map<std::string, int64_t> of_layers = {};

  friend bool operator==(const SkippedSteps&, const SkippedSteps&) = default;
};

// Per step: measure_gradients(), step(), then optionally gradient_norm(). On a GPU the first two
// only submit work; clipping happens on the device.
class Optimizer {
 public:
  // Allocates zeroed state for all trainable ranges of the store; the store must outlive it, and so
  // must the host memory that holds its state. Throws ConfigError for a rate factor that matches no
  // parameter.
  Optimizer(nn::ParameterStore& store, const OptimizerOptions& options, const StateForm& form = {},
            device::HostMemory* host = nullptr,
            int64_t window_bytes = OptimizerState::kWindowBytes);

  // Computes the norm of all gradients together, for step() and gradient_norm(). Allocates only
  // workspace.
  void measure_gradients();

  struct Update {
    int64_t step = 1;         // from 1
    int64_t total_steps = 1;  // that the schedule covers
    // Number of steps before the first that the schedule covers.
    int64_t schedule_begin = 0;
    // Multiplier of the schedule's rate, from a plateau.
    double rate_factor = 1.0;
    // Multiplier of gradients before clipping: the inverse of the loss scale.
    double gradient_scale = 1.0;
    // Seed of the run: stochastic rounding is keyed by it, the step and a value's position.
    uint64_t seed = 1;
    // Parameters whose names begin with one of these are unchanged: layers that the step skipped.
    std::vector<std::string> left_out = {};
  };

  // Updates all weights with the measured gradients; none where their norm is not finite. Allocates
  // nothing, so that it cannot fail midway. State on the host may still be in transfer when this
  // returns.
  void step(const Update& update);

  // Returns the norm found by measure_gradients(), of the gradients as stored, without scaling.
  // Waits for the device. 0 in a dry run.
  double gradient_norm();

  // Counts a step of the run that had no data.
  void skip_step();
  // Skipped steps so far, for checkpoints and resumed runs. Without them all steps count.
  const SkippedSteps& skipped_steps();
  void set_skipped_steps(SkippedSteps skipped);

  // Returns the schedule's rate, before factors of parameters.
  double rate(const Update& update) const {
    return update.rate_factor *
           rate_at(options_.schedule, update.step - update.schedule_begin, update.total_steps);
  }
  // Replaces the schedule for the following steps.
  void set_schedule(const ScheduleOptions& schedule) { options_.schedule = schedule; }

  // The state of one parameter in place, as views in its shape (scales: [blocks]), for checkpoints.
  struct State {
    std::string name;
    StateArrays arrays;
  };
  std::vector<State> states() const;
  // Returns the remainders of bf16 weights by parameter name; empty with fp32 weights.
  std::map<std::string, at::Tensor> remainders() const;

 private:
  // Whole parameters, including the padding after each.
  struct Piece {
    RangePart part;
    double rate_factor = 1.0;
    // Number of steps that did not change it.
    int64_t num_skipped = 0;
  };
  // One trainable parameter, in the order of ranges.
  struct Unit {
    std::string name;
    RangePart part;
    double rate_factor = 1.0;
  };
  std::vector<Unit> make_units() const;
  // Returns the parts that an update changes: neighbours with the same rate and count are merged.
  std::vector<Piece> pieces_without(const std::vector<std::string>& left_out) const;
  int64_t num_skipped(const std::string& name) const;
  // Counts the last step(), once its norm is known.
  void settle();
  // `part`: a part of the piece.
  void update_part(const RangePart& part, const Piece& piece, const Update& update,
                   StateArrays& state);
  // Returns the range and position of a parameter; none for a frozen one, which has no state.
  std::optional<RangePart> part_of(const nn::Parameter& parameter) const;

  nn::ParameterStore& store_;
  OptimizerOptions options_;
  std::vector<RateFactor> rate_factors_;
  OptimizerState state_;
  std::vector<Unit> units_;
  at::Tensor square_sum_;  // [1] fp64, over all gradients
  SkippedSteps skipped_;
  // Layers that the last step() skipped, until they are counted.
  std::optional<std::vector<std::string>> uncounted_;
};

}  // namespace sotto::optim
