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
  // Of matrices; norms and biases do not decay.
  double weight_decay = 0.01;
  // The gradients' norm is brought down to it; 0: never.
  double clip_norm = 1.0;
  // "head.=10": parameters whose names begin with head. have ten times the schedule's rate. The
  // longest prefix counts.
  std::vector<std::string> rate_factors = {};
  // Where moments and remainders lie.
  StatePlace state = StatePlace::kDevice;

  void visit(OptionVisitor& visitor);
  void validate() const;
};

// One of `rate_factors`.
struct RateFactor {
  std::string prefix;
  double factor = 1.0;

  // Throws ConfigError where the text is none.
  static RateFactor parse(const std::string& text);
};

// Steps of a run that did not change parameters. torch counts those that did, and the moments' bias
// correction goes by that count.
struct SkippedSteps {
  // Steps that changed no parameter: gradients were not finite, or there was nothing to learn from.
  int64_t of_all = 0;
  // Further steps that left a layer out, by the prefix of its parameters' names.
  std::map<std::string, int64_t> of_layers = {};

  friend bool operator==(const SkippedSteps&, const SkippedSteps&) = default;
};

// In a step: measure_gradients(), step(), and then gradient_norm() for who wants to know. On a GPU
// the first two only hand work to the device; the clipping happens there.
class Optimizer {
 public:
  // Allocates zeroed state for all ranges of the store that train; the store must outlive it, and
  // so must the memory that state on the host is taken from. Throws ConfigError for a rate factor
  // that no parameter has.
  Optimizer(nn::ParameterStore& store, const OptimizerOptions& options, const StateForm& form = {},
            device::HostMemory* host = nullptr,
            int64_t window_bytes = OptimizerState::kWindowBytes);

  // Takes the norm of all gradients together, for step() and gradient_norm(). Allocates workspace
  // alone.
  void measure_gradients();

  struct Update {
    int64_t step = 1;         // from 1
    int64_t total_steps = 1;  // of the run, for the schedule
    // What the schedule's rate is multiplied by: a plateau's part in it.
    double rate_factor = 1.0;
    // What gradients are multiplied by before they are clipped: one over the scale of the loss.
    double gradient_scale = 1.0;
    // Of the run: random rounding is keyed by it, the step and a value's place.
    uint64_t seed = 1;
    // Parameters whose names begin with one of these stay as they are: layers that the step left
    // out.
    std::vector<std::string> left_out = {};
  };

  // Updates all weights with the gradients that were measured; none where their norm is not finite.
  // Allocates nothing, so that it cannot stop half way. State on the host may still be on its way
  // back when this returns.
  void step(const Update& update);

  // What measure_gradients() found, of the gradients as they lie in memory. Waits for the device. 0
  // in a dry run.
  double gradient_norm();

  // A step of the run that had nothing to learn from.
  void skip_step();
  // All so far, for checkpoints; and of a run that goes on. Without them all steps count.
  const SkippedSteps& skipped_steps();
  void set_skipped_steps(SkippedSteps skipped);

  // The schedule's, before the factors of parameters.
  double rate(const Update& update) const {
    return update.rate_factor * rate_at(options_.schedule, update.step, update.total_steps);
  }

  // The state of one parameter where it lies, as views in its shape (scales: [blocks]): for
  // checkpoints.
  struct State {
    std::string name;
    StateArrays arrays;
  };
  std::vector<State> states() const;
  // What bf16 weights leave out, by the names of parameters; empty with fp32 weights.
  std::map<std::string, at::Tensor> remainders() const;

 private:
  // Whole parameters, with the space after each.
  struct Piece {
    RangePart part;
    double rate_factor = 1.0;
    // Steps that did not change it.
    int64_t num_skipped = 0;
  };
  // One parameter that trains, in the order of ranges.
  struct Unit {
    std::string name;
    RangePart part;
    double rate_factor = 1.0;
  };
  std::vector<Unit> make_units() const;
  // What an update changes: neighbours with one rate and one count, in pieces as long as can be.
  std::vector<Piece> pieces_without(const std::vector<std::string>& left_out) const;
  int64_t num_skipped(const std::string& name) const;
  // Counts the last step(), once its norm is known.
  void settle();
  // `part`: of the piece.
  void update_part(const RangePart& part, const Piece& piece, const Update& update,
                   StateArrays& state);
  // The range that holds a parameter, and where in it; a frozen one has no state.
  std::optional<RangePart> place_of(const nn::Parameter& parameter) const;

  nn::ParameterStore& store_;
  OptimizerOptions options_;
  std::vector<RateFactor> rate_factors_;
  OptimizerState state_;
  std::vector<Unit> units_;
  at::Tensor square_sum_;  // [1] fp64, of all gradients
  SkippedSteps skipped_;
  // What the last step() left out, until it is counted.
  std::optional<std::vector<std::string>> uncounted_;
};

}  // namespace sotto::optim
