#include "sotto/kernels/convolution/depthwise_convolution.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/base/kernel.h"
#include "sotto/kernels/convolution/depthwise_arrays.h"

namespace sotto::kernels {

namespace detail {
// Converts weight [C, K] to fp32 taps [K, C].
void depthwise_order_cpu(const at::Tensor& weight, const at::Tensor& taps, TapOrder order);
SOTTO_CUDA_ENTRY void depthwise_order_cuda(const CudaArray& weight, const CudaArray& taps,
                                           TapOrder order, void* stream);
// `bias` may be undefined.
void depthwise_convolve_cpu(const at::Tensor& x, const at::Tensor& taps, const at::Tensor& bias,
                            const Packing& packing, const at::Tensor& y);
SOTTO_CUDA_ENTRY void depthwise_convolve_cuda(const DepthwiseArrays& in, const CudaPack& pack,
                                              void* stream);
// Computes the sums of slabs, then adds them to the gradients.
void depthwise_accumulate_cpu(const DepthwiseConvolution::Gradients& gradients,
                              const DepthwiseConvolution::Ends& ends, const Packing& packing,
                              const at::Tensor& partial);
SOTTO_CUDA_ENTRY void depthwise_accumulate_cuda(const DepthwiseGradients& in, const CudaPack& pack,
                                                void* stream);
}  // namespace detail

namespace {

void check_pack_rows(const at::Tensor& x, const Packing& packing) {
  check_rows(x, "x");
  SOTTO_ASSERT(x.size(0) == packing.num_frames(), "{} rows for {} frames", x.size(0),
               packing.num_frames());
}

void check_filters(const at::Tensor& weight, const at::Tensor& x) {
  SOTTO_ASSERT(weight.dim() == 2 && weight.is_contiguous() && weight.size(0) == x.size(1),
               "depthwise convolution of {} channels: a weight of [{}], expected [{}, taps]",
               x.size(1), fmt::join(weight.sizes(), ", "), x.size(1));
  SOTTO_ASSERT(weight.size(1) % 2 == 1,
               "depthwise convolution with {} taps, expected an odd number: an even one has no "
               "middle; try {}",
               weight.size(1), weight.size(1) + 1);
  SOTTO_ASSERT(weight.scalar_type() == at::kFloat || weight.scalar_type() == x.scalar_type(),
               "x is {}, the weight is {}", c10::toString(x.scalar_type()),
               c10::toString(weight.scalar_type()));
}

at::Tensor make_taps(const at::Tensor& weight, TapOrder order) {
  at::Tensor taps =
      make_workspace({weight.size(1), weight.size(0)}, weight.options().dtype(at::kFloat));
  report_cost("depthwise_convolution.order",
              {.flops = 0.0, .bytes = bytes_of(weight) + bytes_of(taps)});
  if (is_dry(weight)) return taps;
  if (weight.is_cuda()) {
    detail::depthwise_order_cuda(cuda_array(weight), cuda_array(taps), order,
                                 device::current_cuda_stream());
  } else {
    detail::depthwise_order_cpu(weight, taps, order);
  }
  return taps;
}

// Arithmetic of one product of each frame with each tap.
double flops_of(const at::Tensor& x, int64_t num_taps) {
  return 2.0 * static_cast<double>(x.numel()) * static_cast<double>(num_taps);
}

at::Tensor apply_taps(const at::Tensor& x, const at::Tensor& taps, const at::Tensor& bias,
                      const Packing& packing) {
  at::Tensor y = make_result(x.sizes(), x);
  report_cost("depthwise_convolution.convolve",
              {.flops = flops_of(x, taps.size(0)), .bytes = bytes_of(x) + bytes_of(y)});
  if (is_dry(x)) return y;
  if (x.is_cuda()) {
    detail::depthwise_convolve_cuda({.x = cuda_array(x),
                                     .taps = cuda_array(taps),
                                     .bias = cuda_array(bias),
                                     .y = cuda_array(y)},
                                    cuda_pack(packing), device::current_cuda_stream());
  } else {
    detail::depthwise_convolve_cpu(x, taps, bias, packing, y);
  }
  return y;
}

}  // namespace

int64_t DepthwiseConvolution::num_slabs(int64_t num_frames) {
  return std::clamp<int64_t>(num_frames / 256, 1, 64);
}

at::Tensor DepthwiseConvolution::forward(const at::Tensor& x, const Parameters& parameters,
                                         const Packing& packing) {
  check_pack_rows(x, packing);
  check_filters(parameters.weight, x);
  if (parameters.bias != nullptr) check_float_vector(*parameters.bias, x.size(1), "bias");
  const at::Tensor bias = parameters.bias != nullptr ? *parameters.bias : at::Tensor();
  return apply_taps(x, make_taps(parameters.weight, TapOrder::kForward), bias, packing);
}

at::Tensor DepthwiseConvolution::input_gradient(const at::Tensor& dy, const at::Tensor& weight,
                                                const Packing& packing) {
  check_pack_rows(dy, packing);
  check_filters(weight, dy);
  return apply_taps(dy, make_taps(weight, TapOrder::kReverse), {}, packing);
}

void DepthwiseConvolution::accumulate(const Gradients& gradients, const Ends& ends,
                                      const Packing& packing) {
  check_pack_rows(ends.x, packing);
  check_rows(ends.dy, "dy");
  check_same(ends.x, ends.dy, "dy");
  check_filters(gradients.weight, ends.x);
  SOTTO_ASSERT(gradients.weight.scalar_type() == at::kFloat, "a gradient in {}",
               c10::toString(gradients.weight.scalar_type()));
  const int64_t channels = ends.x.size(1);
  if (gradients.bias != nullptr)
    check_float_vector(*gradients.bias, channels, "gradient of the bias");
  const int64_t num_taps = gradients.weight.size(1);
  const at::Tensor partial = make_workspace({num_slabs(ends.x.size(0)), (num_taps + 1) * channels},
                                            ends.x.options().dtype(at::kFloat));
  report_cost("depthwise_convolution.accumulate",
              {.flops = flops_of(ends.x, num_taps),
               .bytes = 2.0 * bytes_of(ends.x) + 2.0 * bytes_of(partial)});
  if (is_dry(ends.x)) return;
  if (ends.x.is_cuda()) {
    detail::depthwise_accumulate_cuda(
        {.dy = cuda_array(ends.dy),
         .x = cuda_array(ends.x),
         .partial = cuda_array(partial),
         .grad_weight = cuda_array(gradients.weight),
         .grad_bias = gradients.bias != nullptr ? cuda_array(*gradients.bias) : CudaArray{},
         .num_taps = num_taps},
        cuda_pack(packing), device::current_cuda_stream());
  } else {
    detail::depthwise_accumulate_cpu(gradients, ends, packing, partial);
  }
}

}  // namespace sotto::kernels
