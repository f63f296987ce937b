#include "sotto/kernels/base/kernel.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include "sotto/device/cuda_device.h"
#include "sotto/device/memory_scope.h"

namespace sotto::kernels {

const device::Target& target_of(const at::Tensor& tensor) {
  const device::Target& target = device::current_target();
  if (!tensor.is_cuda() || target.is_cuda()) return target;
  static const device::Target card = device::read_cuda_device().target;
  return card;
}

CudaArray cuda_array(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  ElementType type = ElementType::kFloat;
  if (tensor.scalar_type() == at::kBFloat16) type = ElementType::kBFloat16;
  if (tensor.scalar_type() == at::kHalf) type = ElementType::kHalf;
  const bool is_matrix = tensor.dim() == 2;
  return {.data = tensor.data_ptr(),
          .rows = is_matrix ? tensor.size(0) : 1,
          .width = is_matrix ? tensor.size(1) : tensor.numel(),
          .type = type};
}

CudaPack cuda_pack(const Packing& packing) {
  return {
      .starts = packing.device_starts().const_data_ptr<int32_t>(),
      .keys = reinterpret_cast<const uint64_t*>(packing.device_keys().const_data_ptr<int64_t>()),
      .num_utterances = packing.num_utterances(),
      .num_frames = packing.num_frames(),
      .max_length = packing.max_length()};
}

at::Tensor make_workspace(at::IntArrayRef sizes, const at::TensorOptions& options) {
  const device::CategoryScope category(device::Category::kWorkspace);
  return at::empty(sizes, options);
}

at::Tensor make_result(at::IntArrayRef sizes, const at::Tensor& like) {
  return at::empty(sizes, like.options());
}

at::Tensor make_float_result(at::IntArrayRef sizes, const at::Tensor& like) {
  return at::empty(sizes, like.options().dtype(at::kFloat));
}

double bytes_of(const at::Tensor& tensor) {
  return static_cast<double>(tensor.nbytes());
}

void check_rows(const at::Tensor& x, std::string_view name) {
  SOTTO_ASSERT(x.dim() == 2 && x.is_contiguous(), "{} has shape [{}]", name,
               fmt::join(x.sizes(), ", "));
  const at::ScalarType type = x.scalar_type();
  SOTTO_ASSERT(type == at::kFloat || type == at::kBFloat16 || type == at::kHalf, "{} is {}", name,
               c10::toString(type));
}

void check_same(const at::Tensor& a, const at::Tensor& b, std::string_view name) {
  SOTTO_ASSERT(a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && b.is_contiguous(),
               "{} has shape [{}] against [{}]", name, fmt::join(b.sizes(), ", "),
               fmt::join(a.sizes(), ", "));
}

void check_float_vector(const at::Tensor& v, int64_t size, std::string_view name) {
  SOTTO_ASSERT(
      v.dim() == 1 && v.size(0) == size && v.scalar_type() == at::kFloat && v.is_contiguous(),
      "{} has shape [{}] and type {}, expected fp32 [{}]", name, fmt::join(v.sizes(), ", "),
      c10::toString(v.scalar_type()), size);
}

}  // namespace sotto::kernels
