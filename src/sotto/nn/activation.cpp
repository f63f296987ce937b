#include "sotto/nn/activation.h"

#include "sotto/kernels/activation.h"

namespace sotto::nn {

using kernels::Gelu;
using kernels::Relu;
using kernels::Silu;

at::Tensor activate(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::kGelu: return Gelu::forward(x);
    case Activation::kRelu: return Relu::forward(x);
    case Activation::kSilu: return Silu::forward(x);
  }
  SOTTO_ASSERT(false, "no such activation");
  return {};
}

void activation_backward(Activation activation, at::Tensor& dy, const at::Tensor& x) {
  switch (activation) {
    case Activation::kGelu: return Gelu::backward(dy, x);
    case Activation::kRelu: return Relu::backward(dy, x);
    case Activation::kSilu: return Silu::backward(dy, x);
  }
}

}  // namespace sotto::nn
