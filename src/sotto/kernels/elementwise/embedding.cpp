#include "sotto/kernels/elementwise/embedding.h"

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/base/kernel.h"

namespace sotto::kernels {

namespace detail {
void embedding_forward_cpu(const at::Tensor& ids, const at::Tensor& table, const at::Tensor& y);
void embedding_backward_cpu(const at::Tensor& dy, const at::Tensor& ids,
                            const at::Tensor& grad_table);
SOTTO_CUDA_ENTRY void embedding_forward_cuda(const int32_t* ids, const CudaArray& table,
                                             const CudaArray& y, void* stream);
SOTTO_CUDA_ENTRY void embedding_backward_cuda(const CudaArray& dy, const int32_t* ids,
                                              const CudaArray& grad_table, void* stream);
}  // namespace detail

namespace {

void check_ids(const at::Tensor& ids) {
  SOTTO_ASSERT(ids.dim() == 1 && ids.scalar_type() == at::kInt && ids.is_contiguous(),
               "ids are {} of {} dimensions", c10::toString(ids.scalar_type()), ids.dim());
}

}  // namespace

at::Tensor Embedding::forward(const at::Tensor& ids, const at::Tensor& table) {
  check_ids(ids);
  check_rows(table, "table");
  at::Tensor y = make_result({ids.size(0), table.size(1)}, table);
  report_cost("embedding.forward", {.flops = 0.0, .bytes = 2.0 * bytes_of(y)});
  if (is_dry(table)) return y;
  if (table.is_cuda()) {
    detail::embedding_forward_cuda(ids.const_data_ptr<int32_t>(), cuda_array(table), cuda_array(y),
                                   device::current_cuda_stream());
  } else {
    detail::embedding_forward_cpu(ids, table, y);
  }
  return y;
}

void Embedding::backward(const at::Tensor& dy, const at::Tensor& ids, at::Tensor& grad_table) {
  check_ids(ids);
  check_rows(dy, "dy");
  check_rows(grad_table, "gradient of the table");
  SOTTO_ASSERT(dy.size(0) == ids.size(0) && dy.size(1) == grad_table.size(1), "dy is [{}, {}]",
               dy.size(0), dy.size(1));
  const at::ScalarType type = grad_table.scalar_type();
  SOTTO_ASSERT(type == at::kFloat || type == dy.scalar_type(), "a gradient of type {}",
               c10::toString(type));
  const double moved = bytes_of(dy) + 2.0 * static_cast<double>(dy.numel() * grad_table.itemsize());
  report_cost("embedding.backward", {.flops = static_cast<double>(dy.numel()), .bytes = moved});
  if (is_dry(dy)) return;
  if (dy.is_cuda()) {
    detail::embedding_backward_cuda(cuda_array(dy), ids.const_data_ptr<int32_t>(),
                                    cuda_array(grad_table), device::current_cuda_stream());
  } else {
    detail::embedding_backward_cpu(dy, ids, grad_table);
  }
}

}  // namespace sotto::kernels
