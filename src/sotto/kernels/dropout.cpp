#include "sotto/kernels/dropout.h"

#include "sotto/kernels/dropout_mask.h"
#include "sotto/kernels/kernel.h"

namespace sotto::kernels {

namespace detail {
void dropout_cpu(const at::Tensor& x, const at::Tensor& y, const Packing& packing,
                 const DropoutRule& rule);
}

namespace {

// y = x under the mask; y may be x.
void run(const at::Tensor& x, const at::Tensor& y, const Packing& packing,
         const Dropout::Mask& mask) {
  check_rows(x, "x");
  SOTTO_ASSERT(x.size(0) == packing.num_frames(), "{} rows for {} frames", x.size(0),
               packing.num_frames());
  SOTTO_ASSERT(mask.probability >= 0.0 && mask.probability < 1.0, "dropout of {}",
               mask.probability);
  report_cost("dropout",
              {.flops = 20.0 * static_cast<double>(x.numel()), .bytes = 2.0 * bytes_of(x)});
  if (is_dry(x)) return;
  require_cpu(x, "Dropout");
  detail::dropout_cpu(x, y, packing,
                      {.key = fold(mask.key), .threshold = dropout_threshold(mask.probability)});
}

}  // namespace

void Dropout::apply(at::Tensor& x, const Packing& packing, const Mask& mask) {
  if (dropout_threshold(mask.probability) > 0) run(x, x, packing, mask);
}

at::Tensor Dropout::applied(const at::Tensor& x, const Packing& packing, const Mask& mask) {
  at::Tensor y = make_result(x.sizes(), x);
  run(x, y, packing, mask);
  return y;
}

}  // namespace sotto::kernels
