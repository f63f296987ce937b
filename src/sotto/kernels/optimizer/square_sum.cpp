#include "sotto/kernels/optimizer/square_sum.h"

#include <algorithm>
#include <span>

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/base/kernel.h"

namespace sotto::kernels {

namespace detail {
// partial [slabs]: sums of the slabs of values, which are then added to the total in order.
void square_sum_cpu(const at::Tensor& values, const at::Tensor& partial, const at::Tensor& total);
SOTTO_CUDA_ENTRY void square_sum_cuda(const CudaArray& values, std::span<double> partial,
                                      double* total, void* stream);
}  // namespace detail

namespace {

// As with sums over rows, the number of slabs, and with it the result, depends only on the size. A
// slab is worth waking a thread for; the maximum exceeds the cores of any machine and fills a GPU.
int64_t num_slabs(int64_t size) {
  return std::clamp<int64_t>(size / (16 * 1024), 1, 1024);
}

}  // namespace

void SquareSum::accumulate(at::Tensor& total, const at::Tensor& values) {
  const int64_t size = values.numel();
  const at::ScalarType type = values.scalar_type();
  SOTTO_ASSERT(
      values.dim() == 1 && values.is_contiguous() && (type == at::kFloat || type == at::kBFloat16),
      "values in {} dimensions of {}", values.dim(), c10::toString(type));
  SOTTO_ASSERT(
      total.numel() == 1 && total.scalar_type() == at::kDouble && total.device() == values.device(),
      "a total of {} values in {} on {}", total.numel(), c10::toString(total.scalar_type()),
      total.device().str());
  report_cost("square_sum", {.flops = 2.0 * static_cast<double>(size),
                             .bytes = bytes_of(values),
                             .frequency = Frequency::kStep});
  const at::Tensor partial = make_workspace({num_slabs(size)}, total.options());
  if (is_dry(values)) return;
  if (values.is_cuda()) {
    detail::square_sum_cuda(
        cuda_array(values),
        {partial.mutable_data_ptr<double>(), static_cast<size_t>(partial.numel())},
        total.mutable_data_ptr<double>(), device::current_cuda_stream());
  } else {
    detail::square_sum_cpu(values, partial, total);
  }
}

}  // namespace sotto::kernels
