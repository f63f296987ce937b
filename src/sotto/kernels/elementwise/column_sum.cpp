#include "sotto/kernels/elementwise/column_sum.h"

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/base/kernel.h"

namespace sotto::kernels {

namespace detail {
void column_sum_cpu(const at::Tensor& sum, const at::Tensor& x, const at::Tensor& partial);
SOTTO_CUDA_ENTRY void column_sum_cuda(const CudaArray& x, const CudaArray& partial,
                                      const CudaArray& sum, void* stream);
}  // namespace detail

void ColumnSum::accumulate(at::Tensor& sum, const at::Tensor& x) {
  check_rows(x, "x");
  check_float_vector(sum, x.size(1), "sum");
  report_cost("column_sum", {.flops = static_cast<double>(x.numel()), .bytes = bytes_of(x)});
  const at::Tensor partial =
      make_workspace({num_row_slabs(x.size(0)), x.size(1)}, x.options().dtype(at::kFloat));
  if (is_dry(x)) return;
  if (x.is_cuda()) {
    detail::column_sum_cuda(cuda_array(x), cuda_array(partial), cuda_array(sum),
                            device::current_cuda_stream());
  } else {
    detail::column_sum_cpu(sum, x, partial);
  }
}

}  // namespace sotto::kernels
