// A normalisation layer: LayerNorm or RmsNorm with its parameters. N rows, D width.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string>

#include "sotto/core/config/options.h"
#include "sotto/nn/parameters.h"
#include "sotto/nn/tape.h"

namespace sotto::nn {

enum class NormKind { kLayer, kRms };

inline constexpr std::array kNormKinds = {Named{"layer", NormKind::kLayer},
                                          Named{"rms", NormKind::kRms}};

class Norm {
 public:
  // An epsilon of 0 stands for the default of the kind: 1e-5 for layer norms, 1e-6 for RMS norms.
  Norm(ParameterStore& store, const std::string& name, int64_t width, NormKind kind,
       double epsilon = 0.0);

  // Returns y [N, D] for x [N, D], followed by the statistics that backward needs.
  LayerTape::Tensors forward(const at::Tensor& x) const;

  // Returns dx [N, D] for dy [N, D]; `result` is forward's, whose y is not read. `residual` [N, D]:
  // the gradient of the residual connection around the norm, added to dx. Accumulates into the
  // parameters' gradients.
  at::Tensor backward(const at::Tensor& dy, const at::Tensor& x, const LayerTape::Tensors& result,
                      const at::Tensor* residual = nullptr) const;

 private:
  NormKind kind_;
  double epsilon_;
  // Owned by the store, which outlives its layers; RmsNorm has no beta.
  Parameter& gamma_;  // [D]
  Parameter* beta_;   // [D]
};

}  // namespace sotto::nn
