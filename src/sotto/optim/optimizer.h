// AdamW over the ranges of a parameter store, with its state. n values of a range.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
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
  // "head.=10": parameters whose names begin with head. have ten times the schedule's rate. The
  // longest prefix counts.
  std::vector<std::string> rate_factors = {};

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

enum class Moments { kFp32, k8Bit };

inline constexpr std::array kMoments = {Named{"fp32", Moments::kFp32},
                                        Named{"8bit", Moments::k8Bit}};

// What the state of large parameters is made of; that of all others is fp32.
struct StateForm {
  // Of weights in bf16, beside them: 16, 8 or none. Fewer than 16 are rounded at random.
  int remainder_bits = 16;
  Moments moments = Moments::kFp32;
};

// In a step: measure_gradients(), step(), and then gradient_norm() for who wants to know. On a GPU
// the first two only hand work to the device; the clipping happens there.
class Optimizer {
 public:
  // Allocates zeroed state for all ranges of the store that train; the store must outlive it.
  // Throws ConfigError for a rate factor that no parameter has.
  Optimizer(nn::ParameterStore& store, const OptimizerOptions& options, const StateForm& form = {});

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
  // Allocates nothing, so that it cannot stop half way.
  void step(const Update& update);

  // What measure_gradients() found, of the gradients as they lie in memory. Waits for the device. 0
  // in a dry run.
  double gradient_norm() const;

  // The schedule's, before the factors of parameters.
  double rate(const Update& update) const {
    return update.rate_factor * rate_at(options_.schedule, update.step, update.total_steps);
  }

  // The state of one parameter, as views in its shape: for checkpoints.
  struct State {
    std::string name;
    at::Tensor first_moment;
    at::Tensor second_moment;
    at::Tensor first_scales;   // [blocks] of 8-bit moments; undefined with fp32
    at::Tensor second_scales;  // as the first
    at::Tensor remainder;      // undefined with fp32 weights, and where it has no bits
  };
  std::vector<State> states() const;
  // What bf16 weights leave out, by the names of parameters; empty with fp32 weights.
  std::map<std::string, at::Tensor> remainders() const;

 private:
  // Of a range.
  struct Flat {
    at::Tensor first_moment;   // [n] fp32, or uint8 codes
    at::Tensor second_moment;  // as the first
    at::Tensor first_scales;   // [n / 256] fp32, of codes
    at::Tensor second_scales;  // as the first
    at::Tensor remainder;      // [n] int16 or uint8, what bf16 weights leave out
  };

  // Values first .. first + count of a range: whole parameters, with the space behind each.
  struct Piece {
    size_t range = 0;
    int64_t first = 0;
    int64_t count = 0;
    double rate_factor = 1.0;
  };
  // Neighbours of one rate, in pieces as long as can be.
  std::vector<Piece> make_pieces() const;
  // What an update changes.
  std::vector<Piece> pieces_without(const std::vector<std::string>& left_out) const;
  void update_piece(const Piece& piece, const Update& update);
  // The range that holds a parameter, and where in it; a frozen one has no state.
  std::optional<Piece> place_of(const nn::Parameter& parameter) const;

  nn::ParameterStore& store_;
  OptimizerOptions options_;
  std::vector<RateFactor> rate_factors_;
  std::vector<Flat> flats_;  // one for each range; empty for a frozen one
  std::vector<Piece> pieces_;
  at::Tensor square_sum_;  // [1] fp64, of all gradients
};

}  // namespace sotto::optim
