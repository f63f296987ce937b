#include "sotto/kernels/residual_add.h"

#include "sotto/kernels/kernel.h"

namespace sotto::kernels {

namespace detail {
void residual_add_cpu(const at::Tensor& x, const at::Tensor& residual);
}

void ResidualAdd::accumulate(at::Tensor& x, const at::Tensor& residual) {
  check_rows(x, "x");
  check_same(x, residual, "residual");
  report_cost("residual_add",
              {.flops = static_cast<double>(x.numel()), .bytes = 3.0 * bytes_of(x)});
  if (is_dry(x)) return;
  require_cpu(x, "ResidualAdd");
  detail::residual_add_cpu(x, residual);
}

}  // namespace sotto::kernels
