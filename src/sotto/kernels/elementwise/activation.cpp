#include "sotto/kernels/elementwise/activation.h"

#include <array>
#include <string_view>

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/base/element_type.h"
#include "sotto/kernels/base/kernel.h"

namespace sotto::kernels {

namespace detail {
void activation_forward_cpu(ActivationKind kind, const at::Tensor& x, const at::Tensor& y);
void activation_backward_cpu(ActivationKind kind, const at::Tensor& dy, const at::Tensor& x);
SOTTO_CUDA_ENTRY void activation_forward_cuda(ActivationKind kind, const CudaArray& x,
                                              const CudaArray& y, void* stream);
SOTTO_CUDA_ENTRY void activation_backward_cuda(ActivationKind kind, const CudaArray& dy,
                                               const CudaArray& x, void* stream);
SOTTO_CUDA_ENTRY void activation_forward_dropped_cuda(ActivationKind kind, const CudaArray& x,
                                                      const CudaArray& y,
                                                      const CudaDropout& dropout, void* stream);
SOTTO_CUDA_ENTRY void activation_backward_dropped_cuda(ActivationKind kind, const CudaArray& dy,
                                                       const CudaArray& x,
                                                       const CudaDropout& dropout, void* stream);
void dropout_cpu(const at::Tensor& x, const at::Tensor& y, const Packing& packing,
                 const DropoutRule& rule);
}  // namespace detail

namespace {

struct Costs {
  std::string_view forward_name;
  std::string_view backward_name;
  double forward_flops;  // per element
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

// The pass moves the same bytes with and without dropout.
Cost cost_of(const at::Tensor& x, double flops_per_element, double moved, const Dropped* dropped) {
  constexpr double kDropoutFlops = 20.0;
  const double flops = flops_per_element + (dropped == nullptr ? 0.0 : kDropoutFlops);
  return {.flops = flops * static_cast<double>(x.numel()), .bytes = moved * bytes_of(x)};
}

// Returns null if nothing is dropped.
const Dropped* used(const Dropped* dropped) {
  return dropped != nullptr && dropped->mask.changes_anything() ? dropped : nullptr;
}

void forward_on_cuda(ActivationKind kind, const at::Tensor& x, const at::Tensor& y,
                     const Dropped* dropped) {
  void* stream = device::current_cuda_stream();
  if (dropped == nullptr) {
    detail::activation_forward_cuda(kind, cuda_array(x), cuda_array(y), stream);
  } else {
    detail::activation_forward_dropped_cuda(kind, cuda_array(x), cuda_array(y),
                                            dropped->cuda_dropout_for(x), stream);
  }
}

void backward_on_cuda(ActivationKind kind, const at::Tensor& dy, const at::Tensor& x,
                      const Dropped* dropped) {
  void* stream = device::current_cuda_stream();
  if (dropped == nullptr) {
    detail::activation_backward_cuda(kind, cuda_array(dy), cuda_array(x), stream);
  } else {
    detail::activation_backward_dropped_cuda(kind, cuda_array(dy), cuda_array(x),
                                             dropped->cuda_dropout_for(x), stream);
  }
}

// On the CPU dropout is a separate pass: drawing its bits takes longer than another pass over
// memory.
void drop_on_cpu(const at::Tensor& x, const Dropped* dropped) {
  if (dropped != nullptr) detail::dropout_cpu(x, x, dropped->packing, dropped->rule_for(x));
}

at::Tensor forward(ActivationKind kind, const at::Tensor& x, const Dropped* asked) {
  check(x, x);
  const Dropped* dropped = used(asked);
  if (dropped != nullptr) dropped->rule_for(x);  // checks the shape
  const Costs& costs = costs_of(kind);
  report_cost(costs.forward_name, cost_of(x, costs.forward_flops, 2.0, dropped));
  at::Tensor y = make_result(x.sizes(), x);
  if (is_dry(x)) return y;
  if (x.is_cuda()) {
    forward_on_cuda(kind, x, y, dropped);
  } else {
    detail::activation_forward_cpu(kind, x, y);
    drop_on_cpu(y, dropped);
  }
  return y;
}

void backward(ActivationKind kind, at::Tensor& dy, const at::Tensor& x, const Dropped* asked) {
  check(dy, x);
  const Dropped* dropped = used(asked);
  if (dropped != nullptr) dropped->rule_for(x);
  const Costs& costs = costs_of(kind);
  report_cost(costs.backward_name, cost_of(x, costs.backward_flops, 3.0, dropped));
  if (is_dry(x)) return;
  if (x.is_cuda()) {
    backward_on_cuda(kind, dy, x, dropped);
  } else {
    drop_on_cpu(dy, dropped);
    detail::activation_backward_cpu(kind, dy, x);
  }
}

}  // namespace

at::Tensor Gelu::forward(const at::Tensor& x, const Dropped* dropped) {
  return kernels::forward(ActivationKind::kGelu, x, dropped);
}
void Gelu::backward(at::Tensor& dy, const at::Tensor& x, const Dropped* dropped) {
  kernels::backward(ActivationKind::kGelu, dy, x, dropped);
}

at::Tensor Relu::forward(const at::Tensor& x, const Dropped* dropped) {
  return kernels::forward(ActivationKind::kRelu, x, dropped);
}
void Relu::backward(at::Tensor& dy, const at::Tensor& x, const Dropped* dropped) {
  kernels::backward(ActivationKind::kRelu, dy, x, dropped);
}

at::Tensor Silu::forward(const at::Tensor& x, const Dropped* dropped) {
  return kernels::forward(ActivationKind::kSilu, x, dropped);
}
void Silu::backward(at::Tensor& dy, const at::Tensor& x, const Dropped* dropped) {
  kernels::backward(ActivationKind::kSilu, dy, x, dropped);
}

}  // namespace sotto::kernels
