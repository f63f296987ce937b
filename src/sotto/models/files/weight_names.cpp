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

void WeightNames::add_convolution(const std::string& theirs, const std::string& ours,
                                  int64_t taps) {
  const at::Tensor weight = value_of(ours + kWeight);
  add({.name = theirs + kWeight,
       .tensor = weight,
       .shape = {weight.size(0), weight.size(1) / taps, taps},
       .taps = taps});
  if (has(ours + kBias)) add(theirs + kBias, ours + kBias);
}

void WeightNames::add_joined(const std::string& theirs, const std::string& ours,
                             std::span<const std::string_view> names, std::string_view unbiased) {
  const int64_t rows = value_of(ours + kWeight).size(0) / std::ssize(names);
  for (const char* kind : {kWeight, kBias}) {
    if (!has(ours + kind)) continue;
    const at::Tensor whole = value_of(ours + kind);
    int64_t first = 0;
    for (const std::string_view name : names) {
      if (kind == kBias && name == unbiased) continue;
      named_.push_back({.name = fmt::format("{}.{}{}", theirs, name, kind),
                        .tensor = whole.narrow(0, first, rows)});
      first += rows;
    }
    SOTTO_ASSERT(first == whole.size(0), "{} of the {} rows of '{}{}' have a name", first,
                 whole.size(0), ours, kind);
  }
}

void WeightNames::add_qkv(const std::string& theirs, const std::string& ours,
                          const std::array<std::string_view, 3>& names) {
  add_joined(theirs, ours, names);
}

at::Tensor WeightNames::value_of(const std::string& ours) const {
  const nn::Parameter* parameter = store_.find(ours);
  SOTTO_ASSERT(parameter != nullptr, "no parameter '{}'", ours);
  return parameter->value;
}

}  // namespace sotto::models
