// What tests of whole networks against fixtures of tests/oracle share: a folder with weights, and
// what another implementation made of them.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sotto/core/files/text_file.h"
#include "sotto/core/formats/safetensors.h"
#include "sotto/data/batch/micro_batch.h"
#include "sotto/models/model.h"
#include "support/fixture.h"
#include "support/tolerance.h"

namespace sotto::test {

class ModelFixture {
 public:
  explicit ModelFixture(const std::string& name)
      : folder_(fixture_folder() / name),
        expected_(SafetensorsFile::open(folder_ / "expected.safetensors")),
        scalars_(nlohmann::json::parse(read_text_file(folder_ / "expected.json"))) {}

  const std::filesystem::path& folder() const { return folder_; }
  const nlohmann::json& scalars() const { return scalars_; }
  bool has(const std::string& name) const { return expected_.find(name) != nullptr; }

  // Returns the number of tensors whose names begin so.
  int64_t count(const std::string& prefix) const {
    return std::ranges::count_if(expected_.names(),
                                 [&](const std::string& name) { return name.starts_with(prefix); });
  }

  // fp32, or int64.
  at::Tensor tensor(const std::string& name) const {
    const TensorView* view = expected_.find(name);
    if (view == nullptr) throw std::runtime_error("no tensor '" + name + "' in the fixture");
    const bool is_float = view->type == TensorType::kFloat32;
    at::Tensor result = at::empty(view->shape, is_float ? at::kFloat : at::kLong);
    std::memcpy(result.mutable_data_ptr(), view->bytes.data(), view->bytes.size());
    return result;
  }

  // `name`.0, `name`.1, ... one behind the other.
  at::Tensor packed(const std::string& name) const {
    std::vector<at::Tensor> parts;
    for (int64_t u = 0; has(fmt::format("{}.{}", name, u)); ++u)
      parts.push_back(tensor(fmt::format("{}.{}", name, u)));
    return at::cat(parts);
  }

  std::vector<int32_t> whole_numbers(const std::string& name) const {
    const at::Tensor values = tensor(name).to(at::kInt).contiguous();
    return {values.const_data_ptr<int32_t>(), values.const_data_ptr<int32_t>() + values.numel()};
  }

 private:
  std::filesystem::path folder_;
  SafetensorsFile expected_;
  nlohmann::json scalars_;
};

// All examples in their order.
inline data::MicroBatch packed_batch(
    const std::vector<data::Example>& examples, const at::Device& device,
    const std::optional<data::DecoderTokens>& decoder = std::nullopt) {
  std::vector<int64_t> indices(examples.size());
  std::iota(indices.begin(), indices.end(), int64_t{0});
  device::HostMemory host(device.type());
  device::StagingBuffer staging(host);
  return data::make_micro_batch(examples, indices, staging, {.device = device, .decoder = decoder});
}

// The parameters' gradients, undefined where they have none, under the names and in the layouts of
// files, as named_weights() has the values.
inline at::Tensor gradient_of(models::Model& model, const models::NamedTensor& named) {
  for (const nn::Parameter& parameter : model.parameters().parameters()) {
    if (!named.tensor.is_alias_of(parameter.value)) continue;
    const int64_t first = named.tensor.storage_offset() - parameter.value.storage_offset();
    if (first < 0 || first >= parameter.value.numel()) continue;
    if (!parameter.gradient.defined()) return {};
    return parameter.gradient.view(-1)
        .narrow(0, first, named.tensor.numel())
        .view(named.tensor.sizes());
  }
  throw std::runtime_error("no parameter behind '" + named.name + "'");
}

// Values as the file has them.
inline at::Tensor as_in_file(const models::NamedTensor& named, const at::Tensor& values) {
  if (named.taps > 0) {
    const int64_t rows = values.size(0);
    return values.view({rows, named.taps, -1})
        .transpose(1, 2)
        .reshape(named.shape.empty() ? values.sizes() : at::IntArrayRef(named.shape));
  }
  return named.shape.empty() ? values : values.view(named.shape);
}

}  // namespace sotto::test
