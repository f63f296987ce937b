#include "sotto/kernels/elementwise/frame_mask.h"

#include <ATen/ATen.h>

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/base/kernel.h"

namespace sotto::kernels {

namespace detail {
// An undefined `value` means zero.
void fill_rows_cpu(const at::Tensor& x, const at::Tensor& rows, const at::Tensor& value);
void sum_rows_cpu(const at::Tensor& dy, const at::Tensor& rows, const at::Tensor& partial,
                  const at::Tensor& sum);
void zero_columns_cpu(const at::Tensor& x, const Packing& packing, const at::Tensor& hidden);
SOTTO_CUDA_ENTRY void fill_rows_cuda(const CudaArray& x, const int32_t* rows, int64_t num_rows,
                                     const float* value, void* stream);
SOTTO_CUDA_ENTRY void sum_rows_cuda(const CudaArray& dy, const int32_t* rows, int64_t num_rows,
                                    const CudaArray& partial, float* sum, void* stream);
SOTTO_CUDA_ENTRY void zero_columns_cuda(const CudaArray& x, const CudaPack& pack,
                                        const uint8_t* hidden, void* stream);
}  // namespace detail

namespace {

void fill(at::Tensor& x, const at::Tensor& rows, const at::Tensor& value) {
  check_rows(x, "x");
  SOTTO_ASSERT(rows.dim() == 1 && rows.scalar_type() == at::kInt, "rows are no int32 vector");
  report_cost("frame_mask.rows", {.flops = 0.0,
                                  .bytes = bytes_of(x) * static_cast<double>(rows.numel()) /
                                           static_cast<double>(x.size(0))});
  if (is_dry(x) || rows.numel() == 0) return;
  if (x.is_cuda()) {
    detail::fill_rows_cuda(cuda_array(x), rows.const_data_ptr<int32_t>(), rows.numel(),
                           value.defined() ? value.const_data_ptr<float>() : nullptr,
                           device::current_cuda_stream());
  } else {
    detail::fill_rows_cpu(x, rows, value);
  }
}

}  // namespace

void FrameMask::fill_rows(at::Tensor& x, const at::Tensor& rows, const at::Tensor& value) {
  check_float_vector(value, x.size(1), "value");
  fill(x, rows, value);
}

void FrameMask::zero_rows(at::Tensor& dy, const at::Tensor& rows) {
  fill(dy, rows, {});
}

void FrameMask::accumulate(at::Tensor& grad_value, const at::Tensor& dy, const at::Tensor& rows) {
  check_rows(dy, "dy");
  check_float_vector(grad_value, dy.size(1), "grad_value");
  const at::Tensor partial = make_workspace({kSlabs, dy.size(1)}, grad_value.options());
  report_cost("frame_mask.gradient", {.flops = static_cast<double>(rows.numel() * dy.size(1)),
                                      .bytes = bytes_of(dy) * static_cast<double>(rows.numel()) /
                                               static_cast<double>(dy.size(0))});
  if (is_dry(dy) || rows.numel() == 0) return;
  if (dy.is_cuda()) {
    detail::sum_rows_cuda(cuda_array(dy), rows.const_data_ptr<int32_t>(), rows.numel(),
                          cuda_array(partial), grad_value.mutable_data_ptr<float>(),
                          device::current_cuda_stream());
  } else {
    detail::sum_rows_cpu(dy, rows, partial, grad_value);
  }
}

void FrameMask::zero_columns(at::Tensor& x, const Packing& packing, const at::Tensor& hidden) {
  check_rows(x, "x");
  SOTTO_ASSERT(hidden.dim() == 2 && hidden.size(0) == packing.num_utterances() &&
                   hidden.size(1) == x.size(1) && hidden.scalar_type() == at::kByte,
               "a mask of {} features for {} utterances of width {}", hidden.numel(),
               packing.num_utterances(), x.size(1));
  report_cost("frame_mask.columns", {.flops = 0.0, .bytes = 2.0 * bytes_of(x)});
  if (is_dry(x)) return;
  if (x.is_cuda()) {
    detail::zero_columns_cuda(cuda_array(x), cuda_pack(packing), hidden.const_data_ptr<uint8_t>(),
                              device::current_cuda_stream());
  } else {
    detail::zero_columns_cpu(x, packing, hidden);
  }
}

}  // namespace sotto::kernels
