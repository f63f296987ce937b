#include "sotto/kernels/elementwise/position_add.h"

#include <ATen/ATen.h>

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/base/kernel.h"

namespace sotto::kernels {

namespace detail {
void position_add_cpu(const at::Tensor& x, const at::Tensor& table, const Packing& packing,
                      int64_t first);
void position_add_backward_cpu(const at::Tensor& dy, const Packing& packing,
                               const at::Tensor& grad_table);
void sinusoid_add_cpu(const at::Tensor& x, const Packing& packing, int64_t first);
SOTTO_CUDA_ENTRY void position_add_cuda(const CudaArray& x, const CudaArray& table,
                                        const CudaPack& pack, int64_t first, void* stream);
SOTTO_CUDA_ENTRY void position_add_backward_cuda(const CudaArray& dy, const CudaArray& grad_table,
                                                 const CudaPack& pack, void* stream);
SOTTO_CUDA_ENTRY void sinusoid_add_cuda(const CudaArray& x, const CudaPack& pack, int64_t first,
                                        void* stream);
void relative_sinusoids_cpu(const at::Tensor& table);
SOTTO_CUDA_ENTRY void relative_sinusoids_cuda(const CudaArray& table, void* stream);
}  // namespace detail

namespace {

void check(const at::Tensor& x, const Packing& packing) {
  check_rows(x, "x");
  SOTTO_ASSERT(x.size(0) == packing.num_frames(), "{} rows for {} frames", x.size(0),
               packing.num_frames());
}

void check_table(const at::Tensor& table, const at::Tensor& x, int64_t num_positions) {
  check_rows(table, "table");
  SOTTO_ASSERT(table.size(1) == x.size(1), "a table of width {} for {}", table.size(1), x.size(1));
  SOTTO_ASSERT(table.size(0) >= num_positions, "a table of {} positions for {}", table.size(0),
               num_positions);
}

}  // namespace

void PositionAdd::accumulate(at::Tensor& x, const at::Tensor& table, const Packing& packing,
                             int64_t first) {
  check(x, packing);
  check_table(table, x, first + packing.max_length());
  SOTTO_ASSERT(table.scalar_type() == x.scalar_type(), "a table of another type");
  report_cost("position_add",
              {.flops = static_cast<double>(x.numel()), .bytes = 3.0 * bytes_of(x)});
  if (is_dry(x)) return;
  if (x.is_cuda()) {
    detail::position_add_cuda(cuda_array(x), cuda_array(table), cuda_pack(packing), first,
                              device::current_cuda_stream());
  } else {
    detail::position_add_cpu(x, table, packing, first);
  }
}

void PositionAdd::backward(const at::Tensor& dy, const Packing& packing, at::Tensor& grad_table) {
  check(dy, packing);
  check_table(grad_table, dy, packing.max_length());
  SOTTO_ASSERT(grad_table.scalar_type() == at::kFloat, "a gradient that is not fp32");
  report_cost("position_add.backward",
              {.flops = static_cast<double>(dy.numel()), .bytes = 3.0 * bytes_of(dy)});
  if (is_dry(dy)) return;
  if (dy.is_cuda()) {
    detail::position_add_backward_cuda(cuda_array(dy), cuda_array(grad_table), cuda_pack(packing),
                                       device::current_cuda_stream());
  } else {
    detail::position_add_backward_cpu(dy, packing, grad_table);
  }
}

void SinusoidAdd::accumulate(at::Tensor& x, const Packing& packing, int64_t first) {
  check(x, packing);
  SOTTO_ASSERT(x.size(1) % 2 == 0, "sinusoids for a width of {}", x.size(1));
  report_cost("sinusoid_add",
              {.flops = 20.0 * static_cast<double>(x.numel()), .bytes = 2.0 * bytes_of(x)});
  if (is_dry(x)) return;
  if (x.is_cuda()) {
    detail::sinusoid_add_cuda(cuda_array(x), cuda_pack(packing), first,
                              device::current_cuda_stream());
  } else {
    detail::sinusoid_add_cpu(x, packing, first);
  }
}

at::Tensor RelativeSinusoids::forward(const Packing& packing, int64_t width,
                                      const at::TensorOptions& like) {
  SOTTO_ASSERT(width > 0 && width % 2 == 0, "sinusoids for a width of {}", width);
  at::Tensor table = at::empty({2 * packing.max_length() - 1, width}, like);
  report_cost("relative_sinusoids",
              {.flops = 20.0 * static_cast<double>(table.numel()), .bytes = bytes_of(table)});
  if (is_dry(table)) return table;
  if (table.is_cuda()) {
    detail::relative_sinusoids_cuda(cuda_array(table), device::current_cuda_stream());
  } else {
    detail::relative_sinusoids_cpu(table);
  }
  return table;
}

}  // namespace sotto::kernels
