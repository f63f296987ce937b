// All parameters of a model in one store: flat buffers for values and for gradients, divided into
// named views. Layers declare their parameters; allocate() then creates all buffers at once, so
// that the gradient norm and the optimizer process a few long ranges instead of many tensors.
//
//   ParameterStore store;
//   Parameter& weight = store.declare({.name = "head.weight", .shape = {V, D}, .deviation = 0.02});
//   store.allocate({.device = at::kCPU, .seed = 1});
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sotto/kernels/norm/batch_norm.h"

namespace sotto::nn {

struct ParameterSpec {
  std::string name;
  std::vector<int64_t> shape;
  // Initial values are normal with this mean and standard deviation; a deviation of 0 means a
  // constant.
  double mean = 0.0;
  double deviation = 0.0;
  // If not 0, initial values are uniform between -bound and bound instead.
  double bound = 0.0;
  // Values that start with a constant all the same: `count` of them, from `first` on.
  struct Constant {
    int64_t first = 0;
    int64_t count = 0;
    double value = 0.0;
  } constant = {};
  // False: it has neither gradient nor optimizer state. The store also freezes the parameters of
  // its prefixes.
  bool trains = true;
  // A statistic of the data, such as a batch norm's mean: people do not count it as a parameter.
  bool is_statistic = false;

  int64_t num_values() const;
  // Weight decay applies to matrices, and not to vectors (norms, biases), as is usual.
  bool decays() const { return shape.size() > 1; }
};

struct Parameter {
  ParameterSpec spec;
  at::Tensor value;
  at::Tensor
      gradient;  // accumulated by backward; fp32, or of the value's type; undefined where frozen
};

// The running averages of a batch norm that is trained: two vectors that no gradient trains.
// Forward adds every micro-batch to the stage, and the update of the step commits it. A step that
// runs again or is not updated leaves the averages as they were.
struct RunningStatistics {
  Parameter& mean;      // [C]
  Parameter& variance;  // [C]
  kernels::BatchNorm::Stage stage = {};
};

// Contiguous parameters that share their update rules.
struct ParameterRange {
  std::string name;
  at::Tensor values;     // [n]
  at::Tensor gradients;  // [n]; undefined without training, and where frozen
  bool decays = false;
  // Its parameters have at least `small_below` values: the numerics of a run may store them, their
  // gradients and their state with fewer bits. All others are fp32 throughout.
  bool is_large = false;
  // Each view begins at a multiple of this many values, so that vector loads are aligned; in large
  // ranges also so that each block of 8-bit moments (kernels/optimizer/moment_map.h) has values of
  // one parameter only.
  int64_t alignment() const { return is_large ? 256 : 64; }
  // Returns the distance to the next view, in values.
  int64_t spaced(int64_t num_values) const {
    return (num_values + alignment() - 1) / alignment() * alignment();
  }
  // Applies to all of its parameters.
  bool trains = true;
};

// Options of allocate().
struct ParameterAllocation {
  at::Device device = at::kCPU;
  // Type of weights with at least `small_below` values and two dimensions; all others are fp32.
  at::ScalarType weights = at::kFloat;
  // Type of their gradients: fp32, or bf16 with bf16 weights.
  at::ScalarType gradients = at::kFloat;
  int64_t small_below = 4096;
  // Seed of the initial values.
  uint64_t seed = 1;
  // False: no gradients are allocated.
  bool trains = true;
};

// Returns the parameter in the type of the activations: itself, or a copy in the workspace that is
// freed after the product.
at::Tensor in_type_of(const at::Tensor& value, const at::Tensor& activations);

// Accumulator for a layer that computes a parameter's gradient in fp32: the gradient itself, or,
// where that has another type, a zeroed sum in the workspace that add() adds to the gradient,
// rounded once.
class GradientSum {
 public:
  explicit GradientSum(Parameter& parameter);

  at::Tensor& sum() { return is_apart() ? apart_ : parameter_->gradient; }
  void add();

 private:
  bool is_apart() const { return apart_.defined(); }

  Parameter* parameter_;
  at::Tensor apart_;
};

class ParameterStore {
 public:
  // Parameters whose names begin with one of the prefixes are frozen.
  explicit ParameterStore(std::vector<std::string> frozen_prefixes = {})
      : frozen_prefixes_(std::move(frozen_prefixes)) {}
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  // Adds a parameter; must precede allocate(). The reference is valid as long as the store.
  Parameter& declare(ParameterSpec spec);

  // Declares that two vectors are running averages; must precede allocate(). The reference is valid
  // as long as the store.
  RunningStatistics& declare_averages(Parameter& mean, Parameter& variance);

  // Allocates all values, zeroed gradients and stages. Initial values depend only on seed and name,
  // not on the rest of the model.
  void allocate(const ParameterAllocation& allocation);

  void zero_gradients();

  // Empties the stages of all running averages, before the first forward of a step.
  void discard_statistics();
  // Updates the running averages once the step has updated the weights. Allocates nothing.
  void commit_statistics();

  const std::vector<ParameterRange>& ranges() const { return ranges_; }
  std::deque<Parameter>& parameters() { return parameters_; }
  const std::deque<Parameter>& parameters() const { return parameters_; }
  // Returns nullptr where there is none of that name.
  Parameter* find(std::string_view name);
  int64_t num_values() const;

 private:
  std::vector<std::string> frozen_prefixes_;
  std::deque<Parameter> parameters_;  // deque: references stay valid as it grows
  std::deque<RunningStatistics> running_;
  std::vector<ParameterRange> ranges_;
};

}  // namespace sotto::nn
