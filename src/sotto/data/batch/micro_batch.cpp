#include "sotto/data/batch/micro_batch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/device/memory_scope.h"
#include "sotto/device/target.h"

namespace sotto::data {

namespace {

const Example& at_index(std::span<const Example> examples, int64_t index) {
  return examples[static_cast<size_t>(index)];
}

// Concatenates the field `member` of the examples.
template <class T>
void pack_into(std::span<T> to, std::span<const Example> examples, std::span<const int64_t> indices,
               std::vector<T> Example::* member) {
  auto next = to.begin();
  for (const int64_t index : indices) {
    const std::vector<T>& from = at_index(examples, index).*member;
    SOTTO_ASSERT(std::ssize(from) <= to.end() - next, "an example of more values than rows");
    next = std::copy(from.begin(), from.end(), next);
  }
  SOTTO_ASSERT(next == to.end(), "examples hold other values than their rows say");
}

// Fills `values` with the examples, through page-locked memory for a GPU.
template <class T>
void fill(at::Tensor& values, std::span<const Example> examples, std::span<const int64_t> indices,
          std::vector<T> Example::* member, device::StagingBuffer& staging) {
  const auto size = static_cast<size_t>(values.numel());
  const auto bytes = static_cast<int64_t>(values.nbytes());
  if (values.is_meta()) {
    if (device::current_target().is_cuda()) staging.take(bytes);
    return;
  }
  if (values.is_cpu())
    return pack_into<T>({values.mutable_data_ptr<T>(), size}, examples, indices, member);
  auto* staged = reinterpret_cast<T*>(staging.take(bytes));
  pack_into<T>({staged, size}, examples, indices, member);
  values.copy_(at::from_blob(staged, values.sizes(), values.scalar_type()),
               /*non_blocking=*/true);
  staging.launched();
}

at::Tensor pack_values(std::span<const Example> examples, std::span<const int64_t> indices,
                       const at::Device& device, device::StagingBuffer& staging) {
  const Example& first = at_index(examples, indices.front());
  const int64_t width = first.feature_dim;
  const bool is_text = data::is_text(first);
  int64_t rows = 0;
  for (const int64_t index : indices) {
    const Example& example = at_index(examples, index);
    SOTTO_ASSERT(example.feature_dim == width && data::is_text(example) == is_text,
                 "examples of two kinds in one micro-batch");
    rows += example.rows;
  }
  const auto options = at::TensorOptions().dtype(is_text ? at::kInt : at::kFloat).device(device);
  at::Tensor values = width == 0 ? at::empty({rows}, options) : at::empty({rows, width}, options);
  if (is_text) {
    fill(values, examples, indices, &Example::tokens, staging);
  } else {
    fill(values, examples, indices, &Example::values, staging);
  }
  return values;
}

DecoderPack make_decoder_pack(const std::vector<std::vector<int32_t>>& labels,
                              const DecoderTokens& tokens, const at::Device& device,
                              std::vector<UtteranceKey> keys) {
  std::vector<std::vector<int32_t>> inputs = labels, next = labels;
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < labels.size(); ++i) {
    inputs[i].insert(inputs[i].begin(), tokens.start);
    next[i].push_back(tokens.end);
    lengths.push_back(std::ssize(next[i]));
  }
  return {.inputs = kernels::Labels(inputs, device),
          .next = kernels::Labels(next, device),
          .packing = kernels::Packing(std::move(lengths), device, std::move(keys))};
}

}  // namespace

MicroBatch make_micro_batch(std::span<const Example> examples, std::span<const int64_t> indices,
                            device::StagingBuffer& staging, const MicroBatchOptions& options) {
  const at::Device& device = options.device;
  const device::CategoryScope category(device::Category::kData);
  std::vector<int64_t> lengths;
  std::vector<UtteranceKey> keys;
  std::vector<std::vector<int32_t>> labels;
  for (const int64_t index : indices) {
    const Example& example = at_index(examples, index);
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
  MicroBatch batch{.values = pack_values(examples, indices, device, staging),
                   .packing = kernels::Packing(std::move(lengths), device, keys),
                   .labels = kernels::Labels(labels, device)};
  if (options.decoder)
    batch.decoder = make_decoder_pack(labels, *options.decoder, device, std::move(keys));
  return batch;
}

}  // namespace sotto::data
