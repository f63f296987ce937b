#include "sotto/kernels/elementwise/dropout.h"

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/base/kernel.h"

namespace sotto::kernels {

namespace detail {
void dropout_cpu(const at::Tensor& x, const at::Tensor& y, const Packing& packing,
                 const DropoutRule& rule);
SOTTO_CUDA_ENTRY void dropout_cuda(const CudaArray& x, const CudaArray& y,
                                   const CudaDropout& dropout, void* stream);
}  // namespace detail

namespace {

// y = x with the mask applied; y may be x.
void run(const at::Tensor& x, const at::Tensor& y, const Dropped& dropped) {
  const DropoutRule rule = dropped.rule_for(x);
  report_cost("dropout",
              {.flops = 20.0 * static_cast<double>(x.numel()), .bytes = 2.0 * bytes_of(x)});
  if (is_dry(x)) return;
  if (x.is_cuda()) {
    detail::dropout_cuda(cuda_array(x), cuda_array(y), dropped.cuda_dropout_for(x),
                         device::current_cuda_stream());
  } else {
    detail::dropout_cpu(x, y, dropped.packing, rule);
  }
}

}  // namespace

void Dropout::apply(at::Tensor& x, const Packing& packing, const Mask& mask) {
  const Dropped dropped{.packing = packing, .mask = mask};
  if (mask.changes_anything()) run(x, x, dropped);
}

at::Tensor Dropout::applied(const at::Tensor& x, const Packing& packing, const Mask& mask) {
  at::Tensor y = make_result(x.sizes(), x);
  run(x, y, {.packing = packing, .mask = mask});
  return y;
}

DropoutRule Dropped::rule_for(const at::Tensor& x) const {
  check_rows(x, "x");
  SOTTO_ASSERT(x.size(0) == packing.num_frames(), "{} rows for {} frames", x.size(0),
               packing.num_frames());
  SOTTO_ASSERT(mask.probability >= 0.0 && mask.probability < 1.0, "dropout of {}",
               mask.probability);
  const uint32_t threshold = dropout_threshold(mask.probability);
  return {.key = fold(mask.key),
          .threshold = threshold,
          .factor = dropout_scale(threshold) * static_cast<float>(mask.scale)};
}

CudaDropout Dropped::cuda_dropout_for(const at::Tensor& x) const {
  return {.pack = cuda_pack(packing), .rule = rule_for(x)};
}

}  // namespace sotto::kernels
