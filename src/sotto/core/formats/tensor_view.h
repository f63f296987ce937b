// A tensor as bytes of a file: the common result type of all weight readers.
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

// Returns the number of bytes of one value.
int64_t size_of(TensorType type);

// Returns the number of bytes of a tensor; std::nullopt on overflow.
std::optional<int64_t> num_bytes(TensorType type, std::span<const int64_t> shape);

// A tensor of a file: its values in row-major order. The bytes may be unaligned in a file that
// another program wrote.
struct TensorView {
  TensorType type = TensorType::kFloat32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};

}  // namespace sotto
