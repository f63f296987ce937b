// The input of an encoder: fewer frames, each of the encoder's width. Either convolutions over time
// (3 frames, each followed by an activation; of stride 2, one for a factor of 2 and two for 4), or
// stacked frames that are projected. An utterance of T frames is reduced to ceil(T / factor). N
// input frames, M output frames, F features, D width.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sotto/kernels/convolution/frame_windows.h"
#include "sotto/nn/context.h"
#include "sotto/nn/layers/activation.h"
#include "sotto/nn/layers/linear.h"
#include "sotto/nn/parameters.h"
#include "sotto/nn/tape.h"

namespace sotto::nn {

enum class SubsamplingKind { kConvolution, kStacking };

inline constexpr std::array kSubsamplingKinds = {Named{"conv", SubsamplingKind::kConvolution},
                                                 Named{"stack", SubsamplingKind::kStacking}};

struct SubsamplingOptions {
  SubsamplingKind kind = SubsamplingKind::kConvolution;
  // 2 or 4 for convolutions, any value for stacking.
  int64_t factor = 4;
  // For a factor of 2: a convolution of stride 1 before the other one.
  bool has_wide_first = false;
  int64_t num_features = 80;
  int64_t width = 256;
  Activation activation = Activation::kGelu;
};

class Subsampling {
 public:
  using Packings = std::span<const kernels::Packing>;

  Subsampling(ParameterStore& store, const std::string& name, const SubsamplingOptions& options);

  // Returns the pack of input frames and of the output of each stage; the last has M frames.
  std::vector<kernels::Packing> packings_from(kernels::Packing frames) const;

  // Returns the number of output frames for `frames` input frames.
  int64_t num_frames(int64_t frames) const;

  // Returns y [M, D] for x [N, F]; `packings` are those of packings_from().
  at::Tensor forward(at::Tensor x, Packings packings, const Context& context, Tape& tape) const;

  // Accumulates into the parameters' gradients; features have no gradient. Closes the layer's tape.
  void backward(at::Tensor dy, Packings packings, const Context& context, Tape& tape) const;

 private:
  // Windows of frames, and the projection of each.
  struct Stage {
    kernels::FrameWindows::Options windows;
    Linear linear;
  };

  static kernels::FrameWindows::Packings ends_of(size_t stage, Packings packings);
  bool has_activation() const { return options_.kind == SubsamplingKind::kConvolution; }

  // Shared by forward and recomputation: input, windows and product of each stage.
  const at::Tensor& input(size_t stage, Packings packings, LayerTape& tape) const;
  const at::Tensor& windows(size_t stage, Packings packings, LayerTape& tape) const;
  const at::Tensor& product(size_t stage, Packings packings, LayerTape& tape) const;

  SubsamplingOptions options_;
  std::vector<Stage> stages_;
};

}  // namespace sotto::nn
