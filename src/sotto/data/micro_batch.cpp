#include "sotto/data/micro_batch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/device/memory_scope.h"

namespace sotto::data {

namespace {

const Example& at_place(std::span<const Example> examples, int64_t place) {
  return examples[static_cast<size_t>(place)];
}

// Writes the values of the examples one behind the other.
void pack_into(std::span<float> to, std::span<const Example> examples,
               std::span<const int64_t> places) {
  auto next = to.begin();
  for (const int64_t place : places) {
    const std::vector<float>& from = at_place(examples, place).values;
    SOTTO_ASSERT(std::ssize(from) <= to.end() - next, "an example of more values than rows");
    next = std::copy(from.begin(), from.end(), next);
  }
  SOTTO_ASSERT(next == to.end(), "examples hold other values than their rows say");
}

at::Tensor pack_values(std::span<const Example> examples, std::span<const int64_t> places,
                       const at::Device& device, device::StagingBuffer& staging) {
  const int64_t width = at_place(examples, places.front()).feature_dim;
  int64_t rows = 0;
  for (const int64_t place : places) {
    SOTTO_ASSERT(at_place(examples, place).feature_dim == width, "features of two widths");
    rows += at_place(examples, place).rows;
  }
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  at::Tensor values = width == 0 ? at::empty({rows}, options) : at::empty({rows, width}, options);
  if (device.is_meta()) return values;
  const auto size = static_cast<size_t>(values.numel());
  if (device.is_cpu()) {
    pack_into({values.mutable_data_ptr<float>(), size}, examples, places);
    return values;
  }
  auto* staged = reinterpret_cast<float*>(staging.take(static_cast<int64_t>(values.nbytes())));
  pack_into({staged, size}, examples, places);
  values.copy_(at::from_blob(staged, values.sizes(), at::kFloat), /*non_blocking=*/true);
  staging.launched();
  return values;
}

}  // namespace

MicroBatch make_micro_batch(std::span<const Example> examples, std::span<const int64_t> places,
                            const at::Device& device, device::StagingBuffer& staging) {
  const device::CategoryScope category(device::Category::kData);
  std::vector<int64_t> lengths;
  std::vector<UtteranceKey> keys;
  std::vector<std::vector<int32_t>> labels;
  for (const int64_t place : places) {
    const Example& example = at_place(examples, place);
    lengths.push_back(example.rows);
    keys.push_back({.utterance = static_cast<uint64_t>(example.utterance)});
    labels.push_back(example.labels);
  }
  return {.values = pack_values(examples, places, device, staging),
          .packing = kernels::Packing(std::move(lengths), device, std::move(keys)),
          .labels = kernels::Labels(labels, device)};
}

Example make_dry_example(int64_t rows, int64_t feature_dim, int64_t num_labels) {
  // Any label but the blank, which is entry 0 of every vocabulary that we make.
  Example example;
  example.rows = rows;
  example.feature_dim = feature_dim;
  example.labels.assign(static_cast<size_t>(num_labels), 1);
  return example;
}

}  // namespace sotto::data
