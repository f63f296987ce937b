// A tensor as the bytes of a file: what all readers of weights give out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sotto {

enum class TensorType {
  kFloat32,
  kFloat16,
  kBFloat16,
  kInt64,
  kInt32,
  kInt16,
  kUint8,
  kFloat64,
  kBool
};

// The bytes of one value.
int64_t size_of(TensorType type);

// The bytes of a tensor; nothing where they are more than can be counted.
std::optional<int64_t> num_bytes(TensorType type, std::span<const int64_t> shape);

// A tensor of a file: its values in row order. The bytes need not be aligned in a file that another
// program wrote.
struct TensorView {
  TensorType type = TensorType::kFloat32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};

}  // namespace sotto
