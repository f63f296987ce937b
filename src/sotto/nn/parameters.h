// All parameters of a model in one store: flat buffers for values and for gradients, cut into named
// views. Layers declare what they need; allocate() then makes the buffers at once, so that the
// gradient norm and the optimizer walk a few long ranges instead of many tensors.
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

namespace sotto::nn {

struct ParameterSpec {
  std::string name;
  std::vector<int64_t> shape;
  // Initial values are normal with this mean and deviation; a deviation of 0 is a constant.
  double mean = 0.0;
  double deviation = 0.0;
  // Decided by the store: a frozen parameter has neither gradient nor state.
  bool trains = true;

  int64_t num_values() const;
  // Matrices do, vectors (norms, biases) do not, as is usual.
  bool decays() const { return shape.size() > 1; }
};

struct Parameter {
  ParameterSpec spec;
  at::Tensor value;
  at::Tensor
      gradient;  // added to by backward; fp32, or of the value's type; undefined where frozen
};

// Parameters one behind the other that are updated alike.
struct ParameterRange {
  std::string name;
  at::Tensor values;     // [n]
  at::Tensor gradients;  // [n]; undefined without training, and where frozen
  bool decays = false;
  // Its parameters have at least `small_below` values: the numerics of a run may give them, their
  // gradients and their state fewer bits. All others are fp32 throughout.
  bool is_large = false;
  // Each view begins at a multiple of this many values, so that vector loads are aligned; of large
  // ones also blocks of 8-bit moments (kernels/moment_map.h), which then have values of one
  // parameter alone.
  int64_t alignment() const { return is_large ? 256 : 64; }
  // Values up to the next view.
  int64_t spaced(int64_t num_values) const {
    return (num_values + alignment() - 1) / alignment() * alignment();
  }
  // All of its parameters do, or none.
  bool trains = true;
};

// How a store is allocated.
struct ParameterAllocation {
  at::Device device = at::kCPU;
  // Of weights with at least `small_below` values and two dimensions; all others are fp32.
  at::ScalarType weights = at::kFloat;
  // Of the same: fp32, or bf16 with weights of bf16.
  at::ScalarType gradients = at::kFloat;
  int64_t small_below = 4096;
  // Of the initial values.
  uint64_t seed = 1;
  // Without training there are no gradients.
  bool trains = true;
};

// The parameter in the type of the activations that it meets: itself, or a copy in the workspace
// that lives as long as the product.
at::Tensor in_type_of(const at::Tensor& value, const at::Tensor& activations);

// Where a layer that adds to a parameter's gradient in fp32 adds it: the gradient itself, or, where
// that has another type, a zeroed sum in the workspace that add() brings there, rounded once.
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

  // Adds a parameter, before allocate(). The reference lasts as long as the store.
  Parameter& declare(ParameterSpec spec);

  // Makes all values and zeroed gradients. Initial values follow from seed and name alone, whatever
  // else the model holds.
  void allocate(const ParameterAllocation& allocation);

  void zero_gradients();

  const std::vector<ParameterRange>& ranges() const { return ranges_; }
  std::deque<Parameter>& parameters() { return parameters_; }
  const std::deque<Parameter>& parameters() const { return parameters_; }
  // nullptr where there is none of that name.
  Parameter* find(std::string_view name);
  int64_t num_values() const;

 private:
  std::vector<std::string> frozen_prefixes_;
  std::deque<Parameter> parameters_;  // a deque: references stay valid while it grows
  std::vector<ParameterRange> ranges_;
};

}  // namespace sotto::nn
