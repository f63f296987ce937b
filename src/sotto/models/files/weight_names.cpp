#include "sotto/models/files/weight_names.h"

#include <fmt/format.h>

#include <functional>
#include <numeric>

#include "sotto/core/error.h"

namespace sotto::models {

namespace {

constexpr const char* kWeight = ".weight";
constexpr const char* kBias = ".bias";

}  // namespace

void WeightNames::add_part(const std::string& theirs, const std::string& ours) {
  for (const char* kind : {kWeight, kBias}) {
    if (has(ours + kind)) add(theirs + kind, ours + kind);
  }
}

void WeightNames::add_part(const std::string& theirs, const std::string& ours,
                           const std::vector<int64_t>& kernel) {
  const at::Tensor weight = value_of(ours + kWeight);
  const int64_t taps =
      std::accumulate(kernel.begin(), kernel.end(), int64_t{1}, std::multiplies<>());
  std::vector<int64_t> shape = {weight.size(0), weight.size(1) / taps};
  shape.insert(shape.end(), kernel.begin(), kernel.end());
  add(theirs + kWeight, ours + kWeight, std::move(shape));
  if (has(ours + kBias)) add(theirs + kBias, ours + kBias);
}

void WeightNames::add_qkv(const std::string& theirs, const std::string& ours,
                          const std::array<std::string_view, 3>& names) {
  for (const char* kind : {kWeight, kBias}) {
    if (!has(ours + kind)) continue;
    const at::Tensor whole = value_of(ours + kind);
    const int64_t rows = whole.size(0) / 3;
    for (int64_t i = 0; i < 3; ++i) {
      named_.push_back({.name = fmt::format("{}.{}{}", theirs, names[static_cast<size_t>(i)], kind),
                        .tensor = whole.narrow(0, i * rows, rows)});
    }
  }
}

at::Tensor WeightNames::value_of(const std::string& ours) const {
  const nn::Parameter* parameter = store_.find(ours);
  SOTTO_ASSERT(parameter != nullptr, "no parameter '{}'", ours);
  return parameter->value;
}

}  // namespace sotto::models
