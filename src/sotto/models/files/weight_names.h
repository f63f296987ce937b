// The weights of a network under the names and in the layouts of another program's files.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/models/files/tensor_file.h"
#include "sotto/nn/parameters.h"

namespace sotto::models {

class WeightNames {
 public:
  explicit WeightNames(nn::ParameterStore& store) : store_(store) {}

  bool has(const std::string& ours) const { return store_.find(ours) != nullptr; }

  // Adds a parameter; an empty shape in the file is its own.
  void add(const std::string& theirs, const std::string& ours, std::vector<int64_t> shape = {}) {
    named_.push_back({.name = theirs, .tensor = value_of(ours), .shape = std::move(shape)});
  }
  void add(NamedTensor named) { named_.push_back(std::move(named)); }

  // Adds weight and bias of a part; either may be absent in ours.
  void add_part(const std::string& theirs, const std::string& ours);

  // Adds weight and bias of a part whose weight has further dimensions of 1 or of a kernel in the
  // file: [outputs, inputs, ...].
  void add_part(const std::string& theirs, const std::string& ours,
                const std::vector<int64_t>& kernel);

  // Adds a part that is a convolution over time, whose weight is [outputs, inputs, taps] in the
  // file.
  void add_convolution(const std::string& theirs, const std::string& ours, int64_t taps);

  // Adds parts that are one matrix in ours and as many as there are names in theirs, such as q, k
  // and v. The part named `unbiased` has no share of the bias.
  void add_joined(const std::string& theirs, const std::string& ours,
                  std::span<const std::string_view> names, std::string_view unbiased = {});

  // Adds q, k and v, which are one matrix in ours and three in theirs, with these names.
  void add_qkv(const std::string& theirs, const std::string& ours,
               const std::array<std::string_view, 3>& names = {"q_proj", "k_proj", "v_proj"});

  at::Tensor value_of(const std::string& ours) const;
  std::vector<NamedTensor> take() { return std::move(named_); }

 private:
  nn::ParameterStore& store_;
  std::vector<NamedTensor> named_;
};

}  // namespace sotto::models
