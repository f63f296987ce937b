#include "sotto/core/formats/tensor_view.h"

#include "sotto/core/error.h"

namespace sotto {

int64_t size_of(TensorType type) {
  switch (type) {
    case TensorType::kFloat64:
    case TensorType::kInt64: return 8;
    case TensorType::kFloat32:
    case TensorType::kInt32: return 4;
    case TensorType::kFloat16:
    case TensorType::kBFloat16:
    case TensorType::kInt16: return 2;
    case TensorType::kUint8:
    case TensorType::kBool: return 1;
  }
  SOTTO_ASSERT(false, "a type without a size");
}

std::optional<int64_t> num_bytes(TensorType type, std::span<const int64_t> shape) {
  int64_t bytes = size_of(type);
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return bytes;
}

}  // namespace sotto
