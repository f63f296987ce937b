#include "sotto/kernels/glu.h"

#include "sotto/kernels/kernel.h"

namespace sotto::kernels {

namespace detail {
void glu_forward_cpu(const at::Tensor& x, const at::Tensor& y);
void glu_backward_cpu(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& dx);
}  // namespace detail

at::Tensor Glu::forward(const at::Tensor& x) {
  check_rows(x, "x");
  SOTTO_ASSERT(x.size(1) % 2 == 0, "x has width {}", x.size(1));
  report_cost("glu.forward",
              {.flops = 11.0 * static_cast<double>(x.numel()), .bytes = 1.5 * bytes_of(x)});
  at::Tensor y = make_result({x.size(0), x.size(1) / 2}, x);
  if (is_dry(x)) return y;
  require_cpu(x, "Glu");
  detail::glu_forward_cpu(x, y);
  return y;
}

at::Tensor Glu::backward(const at::Tensor& dy, const at::Tensor& x) {
  check_rows(x, "x");
  check_rows(dy, "dy");
  SOTTO_ASSERT(dy.size(0) == x.size(0) && dy.size(1) * 2 == x.size(1), "dy has width {} for {}",
               dy.size(1), x.size(1));
  report_cost("glu.backward",
              {.flops = 14.0 * static_cast<double>(x.numel()), .bytes = 2.5 * bytes_of(x)});
  at::Tensor dx = make_result(x.sizes(), x);
  if (is_dry(x)) return dx;
  require_cpu(x, "Glu");
  detail::glu_backward_cpu(dy, x, dx);
  return dx;
}

}  // namespace sotto::kernels
