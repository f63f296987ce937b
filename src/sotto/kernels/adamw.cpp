#include "sotto/kernels/adamw.h"

#include "sotto/kernels/kernel.h"

namespace sotto::kernels {

namespace detail {
void adamw_cpu(const AdamW::Range& range, const AdamW::Coefficients& coefficients);
}

void AdamW::update(const Range& range, const Coefficients& coefficients) {
  const int64_t size = range.weights.numel();
  check_float_vector(range.weights, size, "weights");
  check_float_vector(range.gradients, size, "gradients");
  check_float_vector(range.first_moment, size, "first_moment");
  check_float_vector(range.second_moment, size, "second_moment");
  const auto& [rate, beta1, beta2, epsilon, decay, step, scale] = coefficients;
  SOTTO_ASSERT(step >= 1, "step {}, counted from 1", step);
  SOTTO_ASSERT(beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1, "betas {} and {}", beta1, beta2);
  SOTTO_ASSERT(rate >= 0 && epsilon >= 0 && decay >= 0, "rate {}, epsilon {}, decay {}", rate,
               epsilon, decay);
  // Three of the four are read and written, the gradients only read.
  report_cost("adamw",
              {.flops = 15.0 * static_cast<double>(size), .bytes = 7.0 * bytes_of(range.weights)});
  if (is_dry(range.weights)) return;
  require_cpu(range.weights, "AdamW");
  detail::adamw_cpu(range, coefficients);
}

}  // namespace sotto::kernels
