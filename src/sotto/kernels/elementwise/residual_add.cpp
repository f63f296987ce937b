#include "sotto/kernels/elementwise/residual_add.h"

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/base/kernel.h"

namespace sotto::kernels {

namespace detail {
void residual_add_cpu(const at::Tensor& x, const at::Tensor& residual);
void residual_add_dropped_cpu(const at::Tensor& x, const at::Tensor& residual,
                              const Packing& packing, const DropoutRule& rule);
SOTTO_CUDA_ENTRY void residual_add_cuda(const CudaArray& x, const CudaArray& residual,
                                        void* stream);
SOTTO_CUDA_ENTRY void residual_add_dropped_cuda(const CudaArray& x, const CudaArray& residual,
                                                const CudaDropout& dropout, void* stream);
}  // namespace detail

void ResidualAdd::accumulate(at::Tensor& x, const at::Tensor& residual) {
  check_rows(x, "x");
  check_same(x, residual, "residual");
  report_cost("residual_add",
              {.flops = static_cast<double>(x.numel()), .bytes = 3.0 * bytes_of(x)});
  if (is_dry(x)) return;
  if (x.is_cuda()) {
    detail::residual_add_cuda(cuda_array(x), cuda_array(residual), device::current_cuda_stream());
  } else {
    detail::residual_add_cpu(x, residual);
  }
}

void ResidualAdd::accumulate_dropped(at::Tensor& x, const at::Tensor& residual,
                                     const Packing& packing, const Dropout::Mask& mask) {
  const Dropped dropped{.packing = packing, .mask = mask};
  const DropoutRule rule = dropped.rule_for(x);
  if (!mask.changes_anything()) return accumulate(x, residual);
  check_same(x, residual, "residual");
  report_cost("residual_add.dropped",
              {.flops = 21.0 * static_cast<double>(x.numel()), .bytes = 3.0 * bytes_of(x)});
  if (is_dry(x)) return;
  if (x.is_cuda()) {
    detail::residual_add_dropped_cuda(cuda_array(x), cuda_array(residual),
                                      dropped.cuda_dropout_for(x), device::current_cuda_stream());
  } else {
    detail::residual_add_dropped_cpu(x, residual, packing, rule);
  }
}

}  // namespace sotto::kernels
