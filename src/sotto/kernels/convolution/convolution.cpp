#include "sotto/kernels/convolution/convolution.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "sotto/kernels/base/kernel.h"
#include "sotto/kernels/product/gemm.h"

namespace sotto::kernels {

namespace {

// Rows of windows are padded to a multiple of this many values.
constexpr int64_t kFilledTo = 8;

// Taps of the kernel from a multiple of the stride up to the next multiple.
struct Part {
  int64_t first_tap;
  int64_t num_taps;
};

template <class Body>
void for_each_part(const Convolution::Options& options, Body body) {
  for (int64_t tap = 0; tap < options.size; tap += options.stride)
    body(Part{.first_tap = tap, .num_taps = std::min(options.stride, options.size - tap)});
}

// Row m [taps I]: a view of the frames under the part's taps of window m.
at::Tensor windows_of(const at::Tensor& x, int64_t num_windows, const Part& part,
                      const Convolution::Options& options) {
  const int64_t inputs = x.size(1);
  return x.as_strided({num_windows, part.num_taps * inputs}, {options.stride * inputs, 1},
                      x.storage_offset() + part.first_tap * inputs);
}

at::Tensor columns_of(const at::Tensor& weight, const Part& part, int64_t inputs) {
  return weight.narrow(1, part.first_tap * inputs, part.num_taps * inputs);
}

int64_t filled(int64_t width) {
  return (width + kFilledTo - 1) / kFilledTo * kFilledTo;
}

// Returns a copy whose rows are padded with zeros to whole vectors.
at::Tensor filled_copy(const at::Tensor& rows) {
  at::Tensor result = make_workspace({rows.size(0), filled(rows.size(1))}, rows.options());
  report_cost("convolution.windows", {.flops = 0.0, .bytes = 2.0 * bytes_of(result)});
  if (is_dry(result)) return result;
  if (result.size(1) != rows.size(1)) result.zero_();
  result.narrow(1, 0, rows.size(1)).copy_(rows);
  return result;
}

bool is_narrow(int64_t inputs, const Convolution::Options& options) {
  return inputs * options.stride < Convolution::kLeastInputs;
}

at::Tensor filled_windows(const at::Tensor& x, int64_t num_windows,
                          const Convolution::Options& options) {
  return filled_copy(
      windows_of(x, num_windows, {.first_tap = 0, .num_taps = options.size}, options));
}

void check(const at::Tensor& weight, int64_t inputs, const Convolution::Options& options) {
  check_rows(weight, "weight");
  SOTTO_ASSERT(options.size >= 1 && options.stride >= 1 && weight.size(1) == options.size * inputs,
               "a weight of {} columns for {} taps, stride {}, {} inputs", weight.size(1),
               options.size, options.stride, inputs);
}

}  // namespace

int64_t Convolution::num_results(int64_t frames, const Options& options) {
  return frames < options.size ? 0 : (frames - options.size) / options.stride + 1;
}

at::Tensor Convolution::forward(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor* bias, const Options& options) {
  at::Tensor y = make_result({num_results(x.size(0), options), weight.size(0)}, x);
  forward_into(y, x, weight, bias, options);
  return y;
}

void Convolution::forward_into(at::Tensor& y, const at::Tensor& x, const at::Tensor& weight,
                               const at::Tensor* bias, const Options& options) {
  check_rows(x, "x");
  check(weight, x.size(1), options);
  const int64_t num_windows = num_results(x.size(0), options);
  SOTTO_ASSERT(num_windows > 0 && y.size(0) == num_windows,
               "{} results of {} frames for a kernel of {}", y.size(0), x.size(0), options.size);
  if (is_narrow(x.size(1), options)) {
    const at::Tensor windows = filled_windows(x, num_windows, options);
    const at::Tensor columns = filled_copy(weight);
    Gemm::multiply_into(y, {.a = windows, .b = columns, .transpose_b = true, .bias = bias});
    return;
  }
  for_each_part(options, [&](const Part& part) {
    const at::Tensor windows = windows_of(x, num_windows, part, options);
    const at::Tensor columns = columns_of(weight, part, x.size(1));
    if (part.first_tap == 0) {
      Gemm::multiply_into(y, {.a = windows, .b = columns, .transpose_b = true, .bias = bias});
    } else {
      Gemm::accumulate(y, {.a = windows, .b = columns, .transpose_b = true});
    }
  });
}

at::Tensor Convolution::input_gradient(const at::Tensor& dy, const at::Tensor& weight,
                                       int64_t num_frames, const Options& options) {
  check_rows(dy, "dy");
  const int64_t inputs = weight.size(1) / options.size;
  check(weight, inputs, options);
  SOTTO_ASSERT(num_results(num_frames, options) == dy.size(0),
               "the gradient of {} frames from {} results", num_frames, dy.size(0));
  at::Tensor dx = make_result({num_frames, inputs}, dy);
  // Frames past those that the first part assigns either receive no gradient or only accumulate:
  // they must start at zero.
  const int64_t num_covered = dy.size(0) * std::min(options.stride, options.size);
  if (!is_dry(dx)) {
    if (options.size < options.stride) {
      dx.zero_();
    } else {
      dx.narrow(0, num_covered, num_frames - num_covered).zero_();
    }
  }
  for_each_part(options, [&](const Part& part) {
    at::Tensor windows = windows_of(dx, dy.size(0), part, options);
    const at::Tensor columns = columns_of(weight, part, inputs);
    if (part.first_tap == 0) {
      Gemm::multiply_into(windows, {.a = dy, .b = columns});
    } else {
      Gemm::accumulate(windows, {.a = dy, .b = columns});
    }
  });
  return dx;
}

void Convolution::accumulate(at::Tensor& grad_weight, const at::Tensor& dy, const at::Tensor& x,
                             const Options& options) {
  check_rows(x, "x");
  check_rows(dy, "dy");
  check(grad_weight, x.size(1), options);
  SOTTO_ASSERT(num_results(x.size(0), options) == dy.size(0), "{} results of {} frames", dy.size(0),
               x.size(0));
  if (is_narrow(x.size(1), options)) {
    const at::Tensor windows = filled_windows(x, dy.size(0), options);
    at::Tensor sum = make_workspace({grad_weight.size(0), windows.size(1)}, grad_weight.options());
    if (!is_dry(sum)) sum.zero_();
    Gemm::accumulate(sum, {.a = dy, .b = windows, .transpose_a = true});
    if (!is_dry(sum)) grad_weight.add_(sum.narrow(1, 0, grad_weight.size(1)));
    return;
  }
  for_each_part(options, [&](const Part& part) {
    const at::Tensor windows = windows_of(x, dy.size(0), part, options);
    at::Tensor columns = columns_of(grad_weight, part, x.size(1));
    Gemm::accumulate(columns, {.a = dy, .b = windows, .transpose_a = true});
  });
}

}  // namespace sotto::kernels
