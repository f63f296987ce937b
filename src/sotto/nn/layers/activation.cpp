#include "sotto/nn/layers/activation.h"

#include "sotto/kernels/elementwise/activation.h"

namespace sotto::nn {

using kernels::Dropped;
using kernels::Gelu;
using kernels::Relu;
using kernels::Silu;

at::Tensor activate(Activation activation, const at::Tensor& x, const Dropped* dropped) {
  switch (activation) {
    case Activation::kGelu: return Gelu::forward(x, dropped);
    case Activation::kRelu: return Relu::forward(x, dropped);
    case Activation::kSilu: return Silu::forward(x, dropped);
  }
  SOTTO_ASSERT(false, "no such activation");
  return {};
}

void activation_backward(Activation activation, at::Tensor& dy, const at::Tensor& x,
                         const Dropped* dropped) {
  switch (activation) {
    case Activation::kGelu: return Gelu::backward(dy, x, dropped);
    case Activation::kRelu: return Relu::backward(dy, x, dropped);
    case Activation::kSilu: return Silu::backward(dy, x, dropped);
  }
}

}  // namespace sotto::nn
