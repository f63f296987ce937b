#include "sotto/kernels/dropout.h"

#include "sotto/kernels/dropout_mask.h"
#include "sotto/kernels/kernel.h"

namespace sotto::kernels {

namespace detail {
void dropout_cpu(const at::Tensor& x, const Packing& packing, PhiloxKey key, uint32_t threshold);
}

void Dropout::apply(at::Tensor& x, const Packing& packing, const Mask& mask) {
  check_rows(x, "x");
  SOTTO_ASSERT(x.size(0) == packing.num_frames(), "{} rows for {} frames", x.size(0),
               packing.num_frames());
  SOTTO_ASSERT(mask.probability >= 0.0 && mask.probability < 1.0, "dropout of {}",
               mask.probability);
  const uint32_t threshold = dropout_threshold(mask.probability);
  if (threshold == 0) return;
  report_cost("dropout",
              {.flops = 20.0 * static_cast<double>(x.numel()), .bytes = 2.0 * bytes_of(x)});
  if (is_dry(x)) return;
  require_cpu(x, "Dropout");
  detail::dropout_cpu(x, packing, fold(mask.key), threshold);
}

}  // namespace sotto::kernels
