#include "sotto/train/tensor_file.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "sotto/core/error.h"
#include "sotto/core/safetensors.h"

namespace sotto::train {

namespace {

constexpr size_t kMaxListed = 6;

struct KnownType {
  at::ScalarType in_memory;
  TensorType in_file;
  std::string_view name;
};

constexpr std::array kKnownTypes = {KnownType{at::kFloat, TensorType::kFloat32, "fp32"},
                                    KnownType{at::kBFloat16, TensorType::kBFloat16, "bf16"},
                                    KnownType{at::kShort, TensorType::kInt16, "int16"}};

const KnownType& type_of(const NamedTensor& named) {
  const auto* found =
      std::ranges::find(kKnownTypes, named.tensor.scalar_type(), &KnownType::in_memory);
  SOTTO_ASSERT(found != kKnownTypes.end(), "'{}' of type {} in a checkpoint", named.name,
               c10::toString(named.tensor.scalar_type()));
  return *found;
}

SafetensorsEntry entry_of(const NamedTensor& named) {
  const at::Tensor& tensor = named.tensor;
  SOTTO_ASSERT(tensor.is_contiguous(), "'{}' cannot be written as it lies", named.name);
  return {.name = named.name,
          .type = type_of(named).in_file,
          .shape = tensor.sizes().vec(),
          .bytes = {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}};
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// What differs between a file and what is there, each in one phrase.
std::vector<std::string> differences(const SafetensorsFile& file,
                                     const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> found;
  std::vector<std::string> names = file.names();
  for (const NamedTensor& ours : tensors) {
    std::erase(names, ours.name);
    const TensorView* theirs = file.find(ours.name);
    const std::vector<int64_t> shape = ours.tensor.sizes().vec();
    if (theirs == nullptr) {
      found.push_back(fmt::format("{} {} is not in it", ours.name, shape_text(shape)));
    } else if (theirs->shape != shape) {
      found.push_back(fmt::format("{} is {} there and {} here", ours.name,
                                  shape_text(theirs->shape), shape_text(shape)));
    } else if (theirs->type != type_of(ours).in_file) {
      found.push_back(fmt::format("{} is not {}", ours.name, type_of(ours).name));
    }
  }
  for (const std::string& name : names) found.push_back(fmt::format("{} is only in it", name));
  return found;
}

}  // namespace

void write_tensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors) {
  std::vector<SafetensorsEntry> entries;
  for (const NamedTensor& tensor : tensors) entries.push_back(entry_of(tensor));
  const SafetensorsMetadata metadata = {{"format", "pt"}};
  if (tensors.empty() || tensors.front().tensor.is_cpu())
    return write_safetensors(path, entries, metadata);
  // From a GPU one after the other: the host need not have room for all.
  const auto on_device =
      at::TensorOptions().device(tensors.front().tensor.device()).dtype(at::kByte);
  at::Tensor host;
  write_safetensors(path, entries, metadata, [&](std::span<const std::byte> bytes) {
    auto* data = const_cast<std::byte*>(bytes.data());
    host = at::from_blob(data, {std::ssize(bytes)}, on_device).cpu();
    return std::span(static_cast<const std::byte*>(host.const_data_ptr()), bytes.size());
  });
}

void load_tensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  std::vector<std::string> found = differences(file, tensors);
  if (!found.empty()) {
    const size_t num_found = found.size();
    if (num_found > kMaxListed) {
      found.resize(kMaxListed);
      found.push_back(fmt::format("and {} more", num_found - kMaxListed));
    }
    throw DataError({.attempted = fmt::format("loading {}", path.string()),
                     .found = fmt::format("a network of another shape: {}", fmt::join(found, "; ")),
                     .expected = "the shapes of this run's configuration",
                     .hint = "Use the configuration beside it (config.yaml), or another --out."});
  }
  for (const NamedTensor& ours : tensors) {
    const TensorView* theirs = file.find(ours.name);
    if (ours.tensor.is_cpu()) {
      std::memcpy(ours.tensor.mutable_data_ptr(), theirs->bytes.data(), theirs->bytes.size());
      continue;
    }
    // As bytes: those of a file need not be aligned.
    auto* data = const_cast<std::byte*>(theirs->bytes.data());
    const int64_t size = std::ssize(theirs->bytes);
    ours.tensor.view(-1).view(at::kByte).copy_(at::from_blob(data, {size}, at::kByte));
  }
}

}  // namespace sotto::train
