// The input of an encoder: fewer frames, each of the encoder's width, by convolutions over time and
// mel bins: one stage of 3 x 3, stride 2, for each factor of 2, followed by ReLU, then a projection
// of a frame's bins and channels. An utterance of T frames is reduced to ceil(T / factor). Two
// kinds: `plain`, as Conformers have it (Gulati et al. 2020, section 2), and `separable`, where all
// stages after the first are a depthwise convolution and a product of the channels, as
// FastConformers have it (Rekesh et al. 2023, section 2.1).
//
// The pack is processed in pieces of some output frames, each with the frames around it that its
// stages see: temporaries do not grow with the utterance. Only the features are kept; backward
// recomputes the pieces from them. The sizes of pieces depend on the device alone, and sums over
// pieces are made in their order.
//
// N input frames, M output frames, F mel bins, C channels, D width.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sotto/core/config/options.h"
#include "sotto/kernels/base/packing.h"
#include "sotto/kernels/convolution/image_windows.h"
#include "sotto/nn/context.h"
#include "sotto/nn/parameters.h"
#include "sotto/nn/tape.h"

namespace sotto::nn {

enum class ImageSubsamplingKind { kPlain, kSeparable };

inline constexpr std::array kImageSubsamplingKinds = {
    Named{"plain", ImageSubsamplingKind::kPlain},
    Named{"separable", ImageSubsamplingKind::kSeparable}};

struct ImageSubsamplingOptions {
  ImageSubsamplingKind kind = ImageSubsamplingKind::kSeparable;
  // 2, 4 or 8.
  int64_t factor = 8;
  int64_t channels = 256;
  int64_t num_features = 80;
  int64_t width = 512;
  // Output frames per piece; 0: chosen for the device.
  int64_t piece_frames = 0;

  // Throws ConfigError.
  void check() const;
};

class ImageSubsampling {
 public:
  using Packings = std::span<const kernels::Packing>;

  ImageSubsampling(ParameterStore& store, const std::string& name,
                   const ImageSubsamplingOptions& options);

  // Returns the pack of input frames and that of output frames.
  std::vector<kernels::Packing> packings_from(kernels::Packing frames) const;

  // Returns the number of output frames for `frames` input frames.
  int64_t num_frames(int64_t frames) const;

  // Returns y [M, D] for x [N, F]; `packings` are those of packings_from().
  at::Tensor forward(at::Tensor x, Packings packings, const Context& context, Tape& tape) const;

  // Accumulates into the parameters' gradients for dy [M, D]; features have no gradient. Closes the
  // layer's tape.
  void backward(const at::Tensor& dy, Packings packings, const Context& context, Tape& tape) const;

 private:
  struct Weights {
    Parameter& weight;
    Parameter& bias;
  };

  struct Stage {
    kernels::ImageShape shape;         // of its input
    std::optional<Weights> depthwise;  // [C, 9], [C]; only where separable
    Weights dense;                     // [C, 9 inputs] of windows, or [C, C]; [C]
  };

  // Output frames that are processed together, and what their stages see.
  struct Piece {
    int64_t first_row;    // of the output
    int64_t first_frame;  // of the input
    bool starts_inside;   // of an utterance
    // The packing of the input, and then those of the output of each stage.
    std::vector<kernels::Packing> packings;
  };

  // The dense weights of all stages and of the projection, in the activations' type.
  using Converted = std::vector<at::Tensor>;

  // Weights in backward, and the sums of their gradients over all pieces.
  struct Work {
    Converted weights;
    std::vector<GradientSum> depthwise;  // of the stages after the first
    std::vector<GradientSum> dense;      // of all stages and of the projection
  };

  static Weights declare(ParameterStore& store, const std::string& name,
                         const std::vector<int64_t>& shape, double variance);
  static std::vector<Stage> declare_stages(ParameterStore& store, const std::string& name,
                                           const ImageSubsamplingOptions& options);

  // Returns the dense weights of stage number `stage`, or of the projection after the last.
  const Weights& dense(size_t stage) const;
  Converted converted(const at::Tensor& x) const;
  Piece piece_at(int64_t first_row, int64_t end_row, Packings packings) const;
  void for_each_piece(const at::Tensor& x, Packings packings,
                      const std::function<void(const Piece&)>& body) const;
  kernels::ImageShape shape_of(size_t stage, const Piece& piece) const;
  at::Tensor columns_of(size_t stage, const at::Tensor& input, const Piece& piece) const;
  at::Tensor run_stage(size_t stage, const at::Tensor& input, const Piece& piece,
                       const Converted& weights) const;
  void backward_piece(const Piece& piece, const at::Tensor& features, const at::Tensor& dy,
                      Work& work) const;
  // Accumulates the gradients of dense weights.
  void accumulate(size_t stage, const at::Tensor& dy, const at::Tensor& input, Work& work) const;

  ImageSubsamplingOptions options_;
  std::vector<Stage> stages_;
  Weights projection_;  // [D, F' C], bin by bin; [D]
};

}  // namespace sotto::nn
