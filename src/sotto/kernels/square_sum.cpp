#include "sotto/kernels/square_sum.h"

#include "sotto/kernels/kernel.h"

namespace sotto::kernels {

namespace detail {
void square_sum_cpu(const at::Tensor& values, const at::Tensor& partial);
}

namespace {

// As with sums over rows, their number depends on the size alone: so does the result. A slab is
// worth waking a thread for; more than these no machine has cores for.
int64_t num_slabs(int64_t size) {
  return std::clamp<int64_t>(size / (16 * 1024), 1, 1024);
}

}  // namespace

double SquareSum::of(const at::Tensor& values) {
  const int64_t size = values.numel();
  check_float_vector(values, size, "values");
  report_cost("square_sum", {.flops = 2.0 * static_cast<double>(size), .bytes = bytes_of(values)});
  const at::Tensor partial = make_workspace({num_slabs(size)}, values.options().dtype(at::kDouble));
  if (is_dry(values)) return 0.0;
  require_cpu(values, "SquareSum");
  detail::square_sum_cpu(values, partial);
  double sum = 0.0;
  for (int64_t slab = 0; slab < partial.size(0); ++slab) {
    sum += partial.const_data_ptr<double>()[slab];
  }
  return sum;
}

}  // namespace sotto::kernels
