#include "sotto/models/files/tensor_values.h"

#include <ATen/ATen.h>

#include <cstring>

#include "sotto/core/error.h"
#include "sotto/kernels/simd/split_float.h"

namespace sotto::models {

namespace {

// Transposes [rows, columns] to [columns, rows] in each of `num_matrices`.
struct Turn {
  int64_t num_matrices;
  int64_t rows;
  int64_t columns;
};

std::vector<std::byte> turned(std::span<const std::byte> from, size_t value_bytes,
                              const Turn& turn) {
  std::vector<std::byte> to(from.size());
  std::byte* next = to.data();
  for (int64_t matrix = 0; matrix < turn.num_matrices; ++matrix) {
    for (int64_t column = 0; column < turn.columns; ++column) {
      for (int64_t row = 0; row < turn.rows; ++row) {
        const int64_t index = (matrix * turn.rows + row) * turn.columns + column;
        std::memcpy(next, from.data() + static_cast<size_t>(index) * value_bytes, value_bytes);
        next += value_bytes;
      }
    }
  }
  return to;
}

Turn to_file(const NamedTensor& named) {
  const int64_t rows = named.tensor.size(0);
  return {rows, named.taps, named.tensor.numel() / rows / named.taps};
}

Turn from_file(const NamedTensor& named) {
  const Turn turn = to_file(named);
  return {turn.num_matrices, turn.columns, turn.rows};
}

template <class T>
T value_at(std::span<const std::byte> bytes, size_t index) {
  T value;
  std::memcpy(static_cast<void*>(&value), bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
std::vector<float> floats_of(std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(value_at<T>(bytes, i));
  return values;
}

using ReadFloats = std::vector<float> (*)(std::span<const std::byte>);

ReadFloats reader_for(TensorType type) {
  switch (type) {
    case TensorType::kFloat32: return floats_of<float>;
    case TensorType::kFloat16: return floats_of<c10::Half>;
    case TensorType::kBFloat16: return floats_of<c10::BFloat16>;
    case TensorType::kFloat64: return floats_of<double>;
    default: return nullptr;
  }
}

template <class T>
void set_value(std::vector<std::byte>& bytes, size_t index, T value) {
  std::memcpy(bytes.data() + index * sizeof(T), &value, sizeof(T));
}

// Splits fp32 values into bf16 and remainders, with a function that splits one value.
template <class Low, class Split>
ValueBytes split_values(std::span<const float> values, Split split_of) {
  ValueBytes bytes{.values = std::vector<std::byte>(values.size() * sizeof(uint16_t)),
                   .remainder = std::vector<std::byte>(values.size() * sizeof(Low))};
  for (size_t i = 0; i < values.size(); ++i) {
    const auto split = split_of(values[i]);
    set_value<uint16_t>(bytes.values, i, split.high);
    set_value<Low>(bytes.remainder, i, split.low);
  }
  return bytes;
}

template <class T>
ValueBytes converted_to(std::span<const float> values) {
  ValueBytes bytes{.values = std::vector<std::byte>(values.size() * sizeof(T)), .remainder = {}};
  for (size_t i = 0; i < values.size(); ++i) set_value(bytes.values, i, static_cast<T>(values[i]));
  return bytes;
}

}  // namespace

bool holds_floats(TensorType type) {
  return reader_for(type) != nullptr;
}

std::span<const std::byte> in_file_order(const NamedTensor& named, std::span<const std::byte> bytes,
                                         std::vector<std::byte>& buffer) {
  if (named.taps == 0) return bytes;
  buffer = turned(bytes, named.tensor.element_size(), to_file(named));
  return buffer;
}

std::span<const std::byte> in_memory_order(const NamedTensor& named, const TensorView& view,
                                           std::vector<std::byte>& buffer) {
  if (named.taps == 0) return view.bytes;
  buffer = turned(view.bytes, static_cast<size_t>(size_of(view.type)), from_file(named));
  return buffer;
}

std::vector<float> read_values(const NamedTensor& named, const TensorView& view) {
  const ReadFloats read = reader_for(view.type);
  SOTTO_ASSERT(read != nullptr, "'{}' holds no numbers that weights can be", named.name);
  std::vector<std::byte> buffer;
  return read(in_memory_order(named, view, buffer));
}

std::vector<float> join_values(const NamedTensor& named, const TensorView& view,
                               const TensorView& remainder) {
  SOTTO_ASSERT(view.type == TensorType::kBFloat16, "'{}' leaves nothing out", named.name);
  std::vector<std::byte> buffer;
  const std::span<const std::byte> high = in_memory_order(named, view, buffer);
  std::vector<float> values(high.size() / sizeof(uint16_t));
  SOTTO_ASSERT(
      remainder.bytes.size() == values.size() * static_cast<size_t>(size_of(remainder.type)),
      "a remainder of another size than '{}'", named.name);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto upper = value_at<uint16_t>(high, i);
    values[i] = remainder.type == TensorType::kUint8
                    ? kernels::join_short({upper, value_at<uint8_t>(remainder.bytes, i)})
                    : kernels::join_float({upper, value_at<int16_t>(remainder.bytes, i)});
  }
  return values;
}

ValueBytes bytes_of_values(const NamedTensor& named, std::span<const float> values) {
  if (named.remainder.defined()) {
    if (named.remainder.scalar_type() != at::kByte)
      return split_values<int16_t>(values, kernels::split_float);
    return split_values<uint8_t>(
        values, [](float value) { return kernels::split_short(value, kernels::kNoNoise8); });
  }
  switch (named.tensor.scalar_type()) {
    case at::kBFloat16: return converted_to<c10::BFloat16>(values);
    case at::kHalf: return converted_to<c10::Half>(values);
    default: return converted_to<float>(values);
  }
}

void put_values(const NamedTensor& named, std::span<const float> values) {
  const ValueBytes bytes = bytes_of_values(named, values);
  put_bytes(named.tensor, bytes.values);
  if (named.remainder.defined()) put_bytes(named.remainder, bytes.remainder);
}

// Copied bytewise: those of a file need not be aligned.
void put_bytes(const at::Tensor& tensor, std::span<const std::byte> bytes) {
  SOTTO_ASSERT(bytes.size() == tensor.nbytes(), "{} bytes for a tensor of {}", bytes.size(),
               tensor.nbytes());
  if (tensor.is_cpu()) {
    std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
    return;
  }
  auto* data = const_cast<std::byte*>(bytes.data());
  tensor.view(-1).view(at::kByte).copy_(at::from_blob(data, {std::ssize(bytes)}, at::kByte));
}

WeightLocation location_of(const NamedTensor& named, const nn::ParameterStore& store) {
  for (const nn::Parameter& parameter : store.parameters()) {
    const int64_t first = named.tensor.storage_offset() - parameter.value.storage_offset();
    if (named.tensor.is_alias_of(parameter.value) && first >= 0 && first < parameter.value.numel())
      return {.parameter = &parameter, .first_value = first};
  }
  SOTTO_ASSERT(false, "'{}' lies in no parameter", named.name);
  return {};
}

std::vector<NamedTensor> with_remainders(std::vector<NamedTensor> named,
                                         const nn::ParameterStore& store,
                                         const std::map<std::string, at::Tensor>& remainders) {
  if (remainders.empty()) return named;
  for (NamedTensor& tensor : named) {
    const WeightLocation location = location_of(tensor, store);
    const auto found = remainders.find(location.parameter->spec.name);
    if (found == remainders.end()) continue;
    tensor.remainder =
        found->second.view(-1).narrow(0, location.first_value, tensor.tensor.numel());
  }
  return named;
}

}  // namespace sotto::models
