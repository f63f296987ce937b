#include "sotto/kernels/activation.h"

#include <array>
#include <string_view>

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/element_type.h"
#include "sotto/kernels/kernel.h"

namespace sotto::kernels {

namespace detail {
void activation_forward_cpu(ActivationKind kind, const at::Tensor& x, const at::Tensor& y);
void activation_backward_cpu(ActivationKind kind, const at::Tensor& dy, const at::Tensor& x);
void activation_forward_cuda(ActivationKind kind, const CudaArray& x, const CudaArray& y,
                             void* stream);
void activation_backward_cuda(ActivationKind kind, const CudaArray& dy, const CudaArray& x,
                              void* stream);
}  // namespace detail

namespace {

struct Costs {
  std::string_view forward_name;
  std::string_view backward_name;
  double forward_flops;  // an element
  double backward_flops;
};

const Costs& costs_of(ActivationKind kind) {
  static constexpr std::array kCosts = {
      Costs{"gelu.forward", "gelu.backward", 40, 45},
      Costs{"relu.forward", "relu.backward", 1, 1},
      Costs{"silu.forward", "silu.backward", 20, 24},
  };
  return kCosts[static_cast<size_t>(kind)];
}

void check(const at::Tensor& x, const at::Tensor& like) {
  check_same(like, x, "x");
  SOTTO_ASSERT(x.is_contiguous(), "x is not contiguous");
}

at::Tensor forward(ActivationKind kind, const at::Tensor& x) {
  check(x, x);
  const auto elements = static_cast<double>(x.numel());
  const Costs& costs = costs_of(kind);
  report_cost(costs.forward_name,
              {.flops = costs.forward_flops * elements, .bytes = 2.0 * bytes_of(x)});
  at::Tensor y = make_result(x.sizes(), x);
  if (is_dry(x)) return y;
  if (x.is_cuda()) {
    detail::activation_forward_cuda(kind, cuda_array(x), cuda_array(y),
                                    device::current_cuda_stream());
  } else {
    detail::activation_forward_cpu(kind, x, y);
  }
  return y;
}

void backward(ActivationKind kind, at::Tensor& dy, const at::Tensor& x) {
  check(dy, x);
  const auto elements = static_cast<double>(x.numel());
  const Costs& costs = costs_of(kind);
  report_cost(costs.backward_name,
              {.flops = costs.backward_flops * elements, .bytes = 3.0 * bytes_of(x)});
  if (is_dry(x)) return;
  if (x.is_cuda()) {
    detail::activation_backward_cuda(kind, cuda_array(dy), cuda_array(x),
                                     device::current_cuda_stream());
  } else {
    detail::activation_backward_cpu(kind, dy, x);
  }
}

}  // namespace

at::Tensor Gelu::forward(const at::Tensor& x) {
  return kernels::forward(ActivationKind::kGelu, x);
}
void Gelu::backward(at::Tensor& dy, const at::Tensor& x) {
  kernels::backward(ActivationKind::kGelu, dy, x);
}

at::Tensor Relu::forward(const at::Tensor& x) {
  return kernels::forward(ActivationKind::kRelu, x);
}
void Relu::backward(at::Tensor& dy, const at::Tensor& x) {
  kernels::backward(ActivationKind::kRelu, dy, x);
}

at::Tensor Silu::forward(const at::Tensor& x) {
  return kernels::forward(ActivationKind::kSilu, x);
}
void Silu::backward(at::Tensor& dy, const at::Tensor& x) {
  kernels::backward(ActivationKind::kSilu, dy, x);
}

}  // namespace sotto::kernels
