// The activations by name.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>

#include "sotto/core/config/options.h"
#include "sotto/kernels/elementwise/dropout.h"

namespace sotto::nn {

enum class Activation { kGelu, kRelu, kSilu };

inline constexpr std::array kActivations = {Named{"gelu", Activation::kGelu},
                                            Named{"relu", Activation::kRelu},
                                            Named{"silu", Activation::kSilu}};

// y of x, any shape; with `dropped`, of x [N, D] and dropped in the same pass.
at::Tensor activate(Activation activation, const at::Tensor& x,
                    const kernels::Dropped* dropped = nullptr);

// dy becomes dx; x and `dropped` are what activate() got.
void activation_backward(Activation activation, at::Tensor& dy, const at::Tensor& x,
                         const kernels::Dropped* dropped = nullptr);

}  // namespace sotto::nn
