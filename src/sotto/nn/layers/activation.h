// Activation functions by name.
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

// Returns y for x of any shape; with `dropped`, for x [N, D], with dropout fused into the same
// pass.
at::Tensor activate(Activation activation, const at::Tensor& x,
                    const kernels::Dropped* dropped = nullptr);

// Overwrites dy with dx; x and `dropped` are the arguments of activate().
void activation_backward(Activation activation, at::Tensor& dy, const at::Tensor& x,
                         const kernels::Dropped* dropped = nullptr);

}  // namespace sotto::nn
