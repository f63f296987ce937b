#include "sotto/data/batch/micro_batch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/device/memory_scope.h"
#include "sotto/device/target.h"

namespace sotto::data {

namespace {

const Example& at_place(std::span<const Example> examples, int64_t place) {
  return examples[static_cast<size_t>(place)];
}

// Writes what the examples have as `member` one behind the other.
template <class T>
void pack_into(std::span<T> to, std::span<const Example> examples, std::span<const int64_t> places,
               std::vector<T> Example::* member) {
  auto next = to.begin();
  for (const int64_t place : places) {
    const std::vector<T>& from = at_place(examples, place).*member;
    SOTTO_ASSERT(std::ssize(from) <= to.end() - next, "an example of more values than rows");
    next = std::copy(from.begin(), from.end(), next);
  }
  SOTTO_ASSERT(next == to.end(), "examples hold other values than their rows say");
}

// `values` filled with them, through page-locked memory on their way to a GPU.
template <class T>
void fill(at::Tensor& values, std::span<const Example> examples, std::span<const int64_t> places,
          std::vector<T> Example::* member, device::StagingBuffer& staging) {
  const auto size = static_cast<size_t>(values.numel());
  const auto bytes = static_cast<int64_t>(values.nbytes());
  if (values.is_meta()) {
    if (device::current_target().is_cuda()) staging.take(bytes);
    return;
  }
  if (values.is_cpu())
    return pack_into<T>({values.mutable_data_ptr<T>(), size}, examples, places, member);
  auto* staged = reinterpret_cast<T*>(staging.take(bytes));
  pack_into<T>({staged, size}, examples, places, member);
  values.copy_(at::from_blob(staged, values.sizes(), values.scalar_type()),
               /*non_blocking=*/true);
  staging.launched();
}

at::Tensor pack_values(std::span<const Example> examples, std::span<const int64_t> places,
                       const at::Device& device, device::StagingBuffer& staging) {
  const Example& first = at_place(examples, places.front());
  const int64_t width = first.feature_dim;
  const bool is_text = !first.tokens.empty();
  int64_t rows = 0;
  for (const int64_t place : places) {
    const Example& example = at_place(examples, place);
    SOTTO_ASSERT(example.feature_dim == width && example.tokens.empty() != is_text,
                 "examples of two kinds in one micro-batch");
    rows += example.rows;
  }
  const auto options = at::TensorOptions().dtype(is_text ? at::kInt : at::kFloat).device(device);
  at::Tensor values = width == 0 ? at::empty({rows}, options) : at::empty({rows, width}, options);
  if (is_text) {
    fill(values, examples, places, &Example::tokens, staging);
  } else {
    fill(values, examples, places, &Example::values, staging);
  }
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
    if (example.segments.empty()) {
      lengths.push_back(example.rows);
      keys.push_back({.utterance = static_cast<uint64_t>(example.utterance),
                      .segment = static_cast<uint32_t>(example.piece)});
      labels.push_back(example.labels);
    }
    auto next = example.labels.begin();
    for (size_t i = 0; i < example.segments.size(); ++i) {
      const int64_t length = example.segments[i];
      lengths.push_back(length);
      keys.push_back({.utterance = static_cast<uint64_t>(example.utterance),
                      .segment = static_cast<uint32_t>(i)});
      labels.emplace_back(next, next + length);
      next += length;
    }
  }
  return {.values = pack_values(examples, places, device, staging),
          .packing = kernels::Packing(std::move(lengths), device, std::move(keys)),
          .labels = kernels::Labels(labels, device)};
}

}  // namespace sotto::data
