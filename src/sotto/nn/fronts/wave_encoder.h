// The feature encoder of wav2vec2: convolutions over the waveform, one frame of 25 ms every 20 ms.
// The pack is processed in pieces of some hundred frames, which are written directly to their
// destination: temporaries do not grow with the utterance. Nothing is kept: backward recomputes the
// pieces from the waveform. S samples, M frames, C width.
//
// Pieces have only a few sizes, regardless of the utterances, so that libraries see the same shapes
// of products again. To this end the utterances are laid out in slots of one stride each: every
// frame begins at the start of a slot. One or two frames at the end of an utterance would overlap
// the next; they are computed with the others, and discarded.
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
#include "sotto/nn/layers/activation.h"
#include "sotto/nn/layers/norm.h"
#include "sotto/nn/parameters.h"

namespace sotto::nn {

enum class WaveNormKind { kGroup, kLayer };

inline constexpr std::array kWaveNormKinds = {Named{"group", WaveNormKind::kGroup},
                                              Named{"layer", WaveNormKind::kLayer}};

struct WaveEncoderOptions {
  // Outputs, taps and stride of each convolution.
  std::vector<int64_t> widths = {512, 512, 512, 512, 512, 512, 512};
  std::vector<int64_t> kernels = {10, 3, 3, 3, 3, 2, 2};
  std::vector<int64_t> strides = {5, 2, 2, 2, 2, 2, 2};
  bool has_bias = false;
  WaveNormKind norm = WaveNormKind::kGroup;
  Activation activation = Activation::kGelu;
  // Slots per piece; 0: chosen for the device.
  int64_t piece_frames = 0;
};

class WaveEncoder {
 public:
  // The utterances as samples and as frames.
  struct Packings {
    const kernels::Packing& samples;
    const kernels::Packing& frames;  // num_frames() per utterance
  };

  WaveEncoder(ParameterStore& store, const std::string& name, const WaveEncoderOptions& options);

  int64_t width() const { return options_.widths.back(); }
  // Returns 0 where there are too few samples for one frame.
  int64_t num_frames(int64_t num_samples) const;
  // Returns the receptive field of one frame in samples, for convolutions with these taps and
  // strides.
  static int64_t samples_per_frame(const std::vector<int64_t>& kernels,
                                   const std::vector<int64_t>& strides);

  // Returns y [M, C] of `type` for samples [S] fp32.
  at::Tensor forward(const at::Tensor& samples, const Packings& packings,
                     at::ScalarType type) const;

  // Accumulates into the parameters' gradients, for dy [M, C].
  void backward(const at::Tensor& dy, const at::Tensor& samples, const Packings& packings) const;

 private:
  struct Stage {
    kernels::Convolution::Options convolution;
    Parameter& weight;  // [O, W I]
    Parameter* bias;    // [O]; null: none
    // Only for the kind `layer`.
    std::optional<Norm> norm;
  };

  // The samples in processing order, and the location of the utterances.
  struct Wave {
    at::Tensor samples;  // in the activations' type; each utterance starts at a slot, zeros between
    std::vector<int64_t> first_slots;
    int64_t num_slots = 0;
    // Only for the kind `group`: the folded weights of the first convolution for each utterance.
    at::Tensor statistics;
    kernels::WaveNorm::Folded folded;
  };

  // Frames of an utterance within a piece.
  struct Segment {
    int64_t first_slot;  // in the piece
    int64_t first_row;   // in the pack
    int64_t count;
  };

  // Slots of all utterances that are processed together, and the samples of their frames.
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

  // Tensors of a stage that backward needs.
  struct Kept {
    at::Tensor input;
    at::Tensor product;
    LayerTape::Tensors normed;  // empty without a norm
  };

  // Sums of the convolutions' weight gradients over all pieces in backward.
  struct WeightGradients {
    std::vector<GradientSum> sums;       // one per stage
    kernels::WaveNorm::Folded d_folded;  // of the first stage, where it is folded
  };

  Wave prepare(const at::Tensor& samples, const Packings& packings, at::ScalarType type) const;
  void for_each_piece(const Wave& wave, const Packings& packings,
                      const std::function<void(const Piece&)>& body) const;
  std::vector<Share> shares_of(const Piece& piece, const Wave& wave, int64_t num_results) const;

  int64_t samples_per_frame() const {
    return samples_per_frame(options_.kernels, options_.strides);
  }
  // Samples between successive frames: the size of a slot.
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
  // Accumulates the gradients of one convolution's weights.
  void accumulate(size_t stage, const at::Tensor& dy, const at::Tensor& input, const Piece& piece,
                  const Wave& wave, WeightGradients& gradients) const;

  WaveEncoderOptions options_;
  std::vector<Stage> stages_;
  // Only for the kind `group`.
  Parameter* gamma_ = nullptr;  // [O]
  Parameter* beta_ = nullptr;   // [O]
};

}  // namespace sotto::nn
