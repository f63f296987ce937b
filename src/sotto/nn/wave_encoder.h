// The front of wav2vec2: convolutions over the waveform, a frame of 25 ms each 20 ms. The pack goes
// through all of them in pieces of some hundred frames, straight into its place: what lies in
// between does not grow with the utterance. Nothing is kept: backward goes through the pieces
// again, from the waveform. S samples, M frames, C width.
//
// Pieces have a few sizes only, whatever the utterances, so that libraries meet the shapes of
// products again. For that the utterances are laid out in slots of one stride each: a frame of any
// of them begins with a slot. One or two frames at the end of an utterance would see the next; they
// are computed with the others, and left.
//
// Two kinds (Baevski et al. 2020, section 2 and appendix): `group` normalises the first convolution
// by utterance and channel, which WaveNorm folds into its weights; `layer` normalises every frame
// of every convolution.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sotto/core/config/options.h"
#include "sotto/kernels/base/packing.h"
#include "sotto/kernels/convolution/convolution.h"
#include "sotto/kernels/norm/wave_norm.h"
#include "sotto/nn/activation.h"
#include "sotto/nn/norm.h"
#include "sotto/nn/parameters.h"

namespace sotto::nn {

enum class WaveNormKind { kGroup, kLayer };

inline constexpr std::array kWaveNormKinds = {Named{"group", WaveNormKind::kGroup},
                                              Named{"layer", WaveNormKind::kLayer}};

struct WaveEncoderOptions {
  // Of each convolution: outputs, taps, stride.
  std::vector<int64_t> widths = {512, 512, 512, 512, 512, 512, 512};
  std::vector<int64_t> kernels = {10, 3, 3, 3, 3, 2, 2};
  std::vector<int64_t> strides = {5, 2, 2, 2, 2, 2, 2};
  bool has_bias = false;
  WaveNormKind norm = WaveNormKind::kGroup;
  Activation activation = Activation::kGelu;
  // Slots of a piece; 0: as many as suit the device.
  int64_t piece_frames = 0;
};

class WaveEncoder {
 public:
  // The utterances at both ends.
  struct Packings {
    const kernels::Packing& samples;
    const kernels::Packing& frames;  // of num_frames() of each
  };

  WaveEncoder(ParameterStore& store, const std::string& name, const WaveEncoderOptions& options);

  int64_t width() const { return options_.widths.back(); }
  // 0 where there are too few samples for one.
  int64_t num_frames(int64_t num_samples) const;
  // Samples under one frame, of convolutions with these taps and strides.
  static int64_t samples_a_frame(const std::vector<int64_t>& kernels,
                                 const std::vector<int64_t>& strides);

  // y [M, C] of `type` from samples [S] fp32.
  at::Tensor forward(const at::Tensor& samples, const Packings& packings,
                     at::ScalarType type) const;

  // Adds to the parameters' gradients, for dy [M, C].
  void backward(const at::Tensor& dy, const at::Tensor& samples, const Packings& packings) const;

 private:
  struct Stage {
    kernels::Convolution::Options convolution;
    Parameter& weight;  // [O, W I]
    Parameter* bias;    // [O]; null: none
    // Of the kind `layer`.
    std::optional<Norm> norm;
  };

  // The samples as they are gone through, and where utterances lie in them.
  struct Wave {
    at::Tensor samples;  // of the activations' type; each utterance from a slot on, zeros between
    std::vector<int64_t> first_slots;
    int64_t num_slots = 0;
    // Of the kind `group`: the first convolution's weights in each utterance.
    at::Tensor moments;
    kernels::WaveNorm::Folded folded;
  };

  // Frames of an utterance in a piece.
  struct Segment {
    int64_t first_slot;  // in the piece
    int64_t first_row;   // in the pack
    int64_t count;
  };

  // Slots of all utterances that are gone through together, and the samples of their frames.
  struct Piece {
    int64_t first_slot;
    int64_t num_slots;
    at::Tensor samples;  // [n, 1]
    std::vector<Segment> segments;
  };

  // Results of the first convolution in a piece that belong to one utterance.
  struct Share {
    int64_t utterance;
    int64_t first;
    int64_t count;
  };

  // What backward needs of a stage.
  struct Kept {
    at::Tensor input;
    at::Tensor product;
    LayerTape::Tensors normed;  // empty without a norm
  };

  // Where backward adds up the gradients of the convolutions' weights, over all pieces.
  struct WeightGradients {
    std::vector<GradientSum> sums;       // of each stage
    kernels::WaveNorm::Folded d_folded;  // of the first, where it is folded
  };

  Wave prepare(const at::Tensor& samples, const Packings& packings, at::ScalarType type) const;
  void for_each_piece(const Wave& wave, const Packings& packings,
                      const std::function<void(const Piece&)>& body) const;
  std::vector<Share> shares_of(const Piece& piece, const Wave& wave, int64_t num_results) const;

  int64_t samples_a_frame() const { return samples_a_frame(options_.kernels, options_.strides); }
  // Samples from one frame to the next: of a slot.
  int64_t total_stride() const;
  bool is_folded(size_t stage) const;
  kernels::WaveNorm::Options wave_options() const;
  at::Tensor product_of(size_t stage, const at::Tensor& input, const Piece& piece,
                        const Wave& wave) const;
  at::Tensor folded_product(const at::Tensor& input, const Piece& piece, const Wave& wave) const;
  Kept run_stage(size_t stage, at::Tensor input, const Piece& piece, const Wave& wave) const;
  at::Tensor activated(const Kept& kept) const;
  void backward_piece(const Piece& piece, at::Tensor dy, const Wave& wave,
                      WeightGradients& gradients) const;
  // The gradients of one convolution's weights.
  void accumulate(size_t stage, const at::Tensor& dy, const at::Tensor& input, const Piece& piece,
                  const Wave& wave, WeightGradients& gradients) const;

  WaveEncoderOptions options_;
  std::vector<Stage> stages_;
  // Of the kind `group`.
  Parameter* gamma_ = nullptr;  // [O]
  Parameter* beta_ = nullptr;   // [O]
};

}  // namespace sotto::nn
