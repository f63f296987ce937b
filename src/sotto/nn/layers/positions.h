// Positional embeddings of frames within their utterance, added to the encoder's input. N frames, D
// width.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string>

#include "sotto/core/config/options.h"
#include "sotto/kernels/base/packing.h"
#include "sotto/nn/parameters.h"

namespace sotto::nn {

enum class PositionKind { kSinusoidal, kLearned };

inline constexpr std::array kPositionKinds = {Named{"sinusoidal", PositionKind::kSinusoidal},
                                              Named{"learned", PositionKind::kLearned}};

struct PositionOptions {
  PositionKind kind = PositionKind::kSinusoidal;
  int64_t width = 256;
  // Maximum utterance length for learned positions, in encoder frames.
  int64_t max_frames = 1500;
};

class Positions {
 public:
  Positions(ParameterStore& store, const std::string& name, const PositionOptions& options);

  // x [N, D] += positions, from `first` on in each utterance. Throws DataError for an utterance
  // longer than the learned table.
  void add(at::Tensor& x, const kernels::Packing& packing, int64_t first = 0) const;

  // Accumulates into the parameters' gradients; the gradient of x is dy [N, D] itself.
  void accumulate(const at::Tensor& dy, const kernels::Packing& packing) const;

 private:
  PositionOptions options_;
  // Owned by the store; null for sinusoids.
  Parameter* table_;  // [max_frames, D]
};

}  // namespace sotto::nn
