// The activations by name.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>

#include "sotto/core/options.h"

namespace sotto::nn {

enum class Activation { kGelu, kRelu, kSilu };

inline constexpr std::array kActivations = {Named{"gelu", Activation::kGelu},
                                            Named{"relu", Activation::kRelu},
                                            Named{"silu", Activation::kSilu}};

// y of x, any shape.
at::Tensor activate(Activation activation, const at::Tensor& x);

// dy becomes dx; x is what activate() got.
void activation_backward(Activation activation, at::Tensor& dy, const at::Tensor& x);

}  // namespace sotto::nn
