// Element types and activation kinds for CUDA sources, which include no LibTorch header.
#pragma once

namespace sotto::kernels {

enum class ElementType { kFloat, kBFloat16, kHalf };

enum class ActivationKind { kGelu, kRelu, kSilu };

}  // namespace sotto::kernels
