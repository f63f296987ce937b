#include "sotto/nn/fronts/image_subsampling.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/device/memory_scope.h"
#include "sotto/kernels/base/kernel.h"
#include "sotto/kernels/convolution/image_depthwise.h"
#include "sotto/kernels/elementwise/activation.h"
#include "sotto/kernels/elementwise/column_sum.h"
#include "sotto/kernels/product/gemm.h"

namespace sotto::nn {

namespace {

using device::MomentScope;
using device::Phase;
using kernels::ColumnSum;
using kernels::Gemm;
using kernels::ImageDepthwise;
using kernels::ImagePackings;
using kernels::ImageShape;
using kernels::ImageWindows;
using kernels::Packing;
using kernels::Relu;

constexpr size_t kFeatures = 0;
constexpr std::array<SlotSpec, 1> kSlots = {{{.name = "features"}}};

// Input frames per piece: enough that products fill a GPU; on a CPU few enough that results stay
// near its caches.
constexpr int64_t kFramesOnGpu = 4096;
constexpr int64_t kFramesOnCpu = 256;

// Frames of an utterance at one stage of a piece.
struct FrameSpan {
  int64_t first;
  int64_t end;
};

// Frames of an utterance of `length` that windows of a stage see.
FrameSpan seen_by(const FrameSpan& windows, int64_t length) {
  return {.first = std::max<int64_t>(0, 2 * windows.first - 1),
          .end = std::min(length, 2 * windows.end)};
}

ImagePackings ends_of(size_t stage, const std::vector<Packing>& packings) {
  return {.from = packings[stage], .to = packings[stage + 1]};
}

}  // namespace

void ImageSubsamplingOptions::check() const {
  const auto refuse = [](std::string found, std::string expected) {
    throw ConfigError({.attempted = "setting up convolutional subsampling over time and mel bins",
                       .found = std::move(found),
                       .expected = std::move(expected)});
  };
  if (factor != 2 && factor != 4 && factor != 8)
    refuse(fmt::format("a factor of {}", factor), "2, 4 or 8");
  if (channels < 1) refuse(fmt::format("{} channels", channels), "at least 1");
  if (num_features < 1) refuse(fmt::format("{} mel bins", num_features), "at least 1");
  if (width < 1) refuse(fmt::format("a width of {}", width), "at least 1");
  if (piece_frames < 0)
    refuse(fmt::format("pieces of {} frames", piece_frames), "at least 1, or 0 for the default");
}

ImageSubsampling::Weights ImageSubsampling::declare(ParameterStore& store, const std::string& name,
                                                    const std::vector<int64_t>& shape,
                                                    double variance) {
  const auto inputs = static_cast<double>(shape[1]);
  // Biases are as wide as PyTorch draws them. With zeros, frames that are masked entirely would be
  // rows of zeros for the first block, whose norm multiplies their gradients by 316: too much for
  // fp16.
  return {
      .weight = store.declare(
          {.name = name + ".weight", .shape = shape, .deviation = std::sqrt(variance / inputs)}),
      .bias = store.declare({.name = name + ".bias",
                             .shape = {shape[0]},
                             .deviation = std::sqrt(1.0 / (3.0 * inputs))})};
}

std::vector<ImageSubsampling::Stage> ImageSubsampling::declare_stages(
    ParameterStore& store, const std::string& name, const ImageSubsamplingOptions& options) {
  options.check();
  // ReLU halves the second moment of what it is given.
  constexpr double kBeforeRelu = 2.0;
  std::vector<Stage> stages;
  ImageShape shape{.bins = options.num_features, .channels = 1};
  for (int64_t factor = 2; factor <= options.factor; factor *= 2) {
    const std::string stage = fmt::format("{}.conv{}", name, stages.size() + 1);
    if (options.kind == ImageSubsamplingKind::kSeparable && !stages.empty()) {
      const Weights depthwise =
          declare(store, stage + ".depthwise", {shape.channels, ImageShape::kTaps}, 1.0);
      stages.push_back({.shape = shape,
                        .depthwise = depthwise,
                        .dense = declare(store, stage + ".pointwise",
                                         {options.channels, shape.channels}, kBeforeRelu)});
    } else {
      stages.push_back(
          {.shape = shape,
           .depthwise = std::nullopt,
           .dense = declare(store, stage, {options.channels, ImageShape::kTaps * shape.channels},
                            kBeforeRelu)});
    }
    shape = {.bins = shape.windowed_bins(), .channels = options.channels};
  }
  return stages;
}

ImageSubsampling::ImageSubsampling(ParameterStore& store, const std::string& name,
                                   const ImageSubsamplingOptions& options)
    : options_(options),
      stages_(declare_stages(store, name, options)),
      projection_(declare(store, name + ".projection",
                          {options.width, stages_.back().shape.windowed_bins() * options.channels},
                          1.0)) {}

std::vector<Packing> ImageSubsampling::packings_from(Packing frames) const {
  std::vector<int64_t> lengths;
  for (const int64_t length : frames.lengths()) lengths.push_back(num_frames(length));
  Packing reduced(std::move(lengths), frames.device_starts().device(), frames.keys());
  std::vector<Packing> packings;
  packings.push_back(std::move(frames));
  packings.push_back(std::move(reduced));
  return packings;
}

int64_t ImageSubsampling::num_frames(int64_t frames) const {
  return (frames + options_.factor - 1) / options_.factor;
}

at::Tensor ImageSubsampling::forward(at::Tensor x, Packings packings, const Context& context,
                                     Tape& tapes) const {
  const MomentScope moment(context.moment(Phase::kForward));
  LayerTape& tape = tapes.open(context.layer, kSlots, context.has_backward());
  at::Tensor y = at::empty({packings.back().num_frames(), options_.width}, x.options());
  const Converted weights = converted(x);
  for_each_piece(x, packings, [&](const Piece& piece) {
    at::Tensor h = x.narrow(0, piece.first_frame, piece.packings.front().num_frames());
    for (size_t stage = 0; stage < stages_.size(); ++stage) h = run_stage(stage, h, piece, weights);
    at::Tensor rows = y.narrow(0, piece.first_row, h.size(0));
    Gemm::multiply_into(
        rows, {.a = h, .b = weights.back(), .transpose_b = true, .bias = &projection_.bias.value});
  });
  tape.put(kFeatures, {std::move(x)});
  if (!context.has_backward()) tapes.close(context.layer);
  return y;
}

void ImageSubsampling::backward(const at::Tensor& dy, Packings packings, const Context& context,
                                Tape& tapes) const {
  const MomentScope moment(context.moment(Phase::kBackward));
  LayerTape& tape = tapes.layer(context.layer);
  tape.begin_backward();
  const at::Tensor& features = tape.kept(kFeatures).front();
  Work work{.weights = converted(features), .depthwise = {}, .dense = {}};
  for (const Stage& stage : stages_) {
    if (stage.depthwise) work.depthwise.emplace_back(stage.depthwise->weight);
    work.dense.emplace_back(stage.dense.weight);
  }
  work.dense.emplace_back(projection_.weight);
  for_each_piece(features, packings,
                 [&](const Piece& piece) { backward_piece(piece, features, dy, work); });
  for (GradientSum& sum : work.depthwise) sum.add();
  for (GradientSum& sum : work.dense) sum.add();
  tapes.close(context.layer);
}

// Frames at the border of two pieces are computed in both: each adds the contribution of its own
// output frames.
void ImageSubsampling::backward_piece(const Piece& piece, const at::Tensor& features,
                                      const at::Tensor& dy, Work& work) const {
  // The input of each stage, and of the projection.
  std::vector<at::Tensor> inputs = {
      features.narrow(0, piece.first_frame, piece.packings.front().num_frames())};
  for (size_t stage = 0; stage < stages_.size(); ++stage)
    inputs.push_back(run_stage(stage, inputs.back(), piece, work.weights));

  const at::Tensor d_rows = dy.narrow(0, piece.first_row, inputs.back().size(0));
  accumulate(stages_.size(), d_rows, inputs.back(), work);
  at::Tensor gradient = Gemm::multiply({.a = d_rows, .b = work.weights.back()});
  for (size_t stage = stages_.size(); stage-- > 0;) {
    Relu::backward(gradient, inputs.back());
    inputs.pop_back();
    gradient = gradient.view({-1, options_.channels});
    accumulate(stage, gradient, columns_of(stage, inputs.back(), piece), work);
    if (stage == 0) break;
    gradient = Gemm::multiply({.a = gradient, .b = work.weights[stage]});
    const ImageShape shape = shape_of(stage, piece);
    const ImagePackings ends = ends_of(stage, piece.packings);
    if (const auto& depthwise = stages_[stage].depthwise) {
      gradient = gradient.view({ends.to.num_frames(), -1});
      ImageDepthwise::accumulate(
          {.weight = work.depthwise[stage - 1].sum(), .bias = depthwise->bias.gradient},
          {.dy = gradient, .x = inputs.back()}, ends, shape);
      gradient = ImageDepthwise::input_gradient(gradient, depthwise->weight.value, ends, shape);
    } else {
      gradient = ImageWindows::backward(gradient, ends, shape);
    }
  }
}

void ImageSubsampling::accumulate(size_t stage, const at::Tensor& dy, const at::Tensor& input,
                                  Work& work) const {
  Gemm::accumulate(work.dense[stage].sum(), {.a = dy, .b = input, .transpose_a = true});
  ColumnSum::accumulate(dense(stage).bias.gradient, dy);
}

const ImageSubsampling::Weights& ImageSubsampling::dense(size_t stage) const {
  return stage < stages_.size() ? stages_[stage].dense : projection_;
}

ImageSubsampling::Converted ImageSubsampling::converted(const at::Tensor& x) const {
  Converted weights;
  for (size_t stage = 0; stage <= stages_.size(); ++stage)
    weights.push_back(in_type_of(dense(stage).weight.value, x));
  return weights;
}

ImageSubsampling::Piece ImageSubsampling::piece_at(int64_t first_row, int64_t end_row,
                                                   Packings packings) const {
  const Packing& frames = packings.front();
  const Packing& rows = packings.back();
  std::vector<std::vector<int64_t>> lengths(stages_.size() + 1);
  Piece piece{.first_row = first_row, .first_frame = 0, .starts_inside = false, .packings = {}};
  const int64_t first_utterance = rows.utterance_of(first_row);
  for (int64_t u = first_utterance; u <= rows.utterance_of(end_row - 1); ++u) {
    const auto index = static_cast<size_t>(u);
    FrameSpan span{.first = std::max(first_row, rows.starts()[index]) - rows.starts()[index],
                   .end = std::min(end_row, rows.starts()[index + 1]) - rows.starts()[index]};
    const bool is_inside = span.first > 0;
    lengths[stages_.size()].push_back(span.end - span.first);
    for (size_t stage = stages_.size(); stage-- > 0;) {
      const int64_t divisor = int64_t{1} << stage;
      span = seen_by(span, (frames.lengths()[index] + divisor - 1) / divisor);
      lengths[stage].push_back(span.end - span.first);
    }
    if (u > first_utterance) continue;
    piece.starts_inside = is_inside;
    piece.first_frame = frames.starts()[index] + span.first;
  }
  for (std::vector<int64_t>& of_stage : lengths)
    piece.packings.emplace_back(std::move(of_stage), frames.device_starts().device());
  return piece;
}

void ImageSubsampling::for_each_piece(const at::Tensor& x, Packings packings,
                                      const std::function<void(const Piece&)>& body) const {
  const int64_t frames = kernels::is_for_cuda(x) ? kFramesOnGpu : kFramesOnCpu;
  const int64_t most = options_.piece_frames > 0 ? options_.piece_frames : frames / options_.factor;
  const int64_t num_rows = packings.back().num_frames();
  for (int64_t first = 0; first < num_rows; first += most)
    body(piece_at(first, std::min(first + most, num_rows), packings));
}

ImageShape ImageSubsampling::shape_of(size_t stage, const Piece& piece) const {
  ImageShape shape = stages_[stage].shape;
  shape.starts_inside = piece.starts_inside;
  return shape;
}

// Returns what the stage multiplies by its dense weights: [M F', 9 inputs] or [M F', C].
at::Tensor ImageSubsampling::columns_of(size_t stage, const at::Tensor& input,
                                        const Piece& piece) const {
  const ImagePackings ends = ends_of(stage, piece.packings);
  const auto& depthwise = stages_[stage].depthwise;
  if (!depthwise) return ImageWindows::forward(input, ends, shape_of(stage, piece));
  return ImageDepthwise::forward(input,
                                 {.weight = depthwise->weight.value, .bias = depthwise->bias.value},
                                 ends, shape_of(stage, piece))
      .view({-1, options_.channels});
}

// Returns the stage's result [M, F' C] for its input [N, F inputs].
at::Tensor ImageSubsampling::run_stage(size_t stage, const at::Tensor& input, const Piece& piece,
                                       const Converted& weights) const {
  at::Tensor product;
  {
    const at::Tensor columns = columns_of(stage, input, piece);
    product = Gemm::multiply(
        {.a = columns, .b = weights[stage], .transpose_b = true, .bias = &dense(stage).bias.value});
  }
  return Relu::forward(product).view({piece.packings[stage + 1].num_frames(), -1});
}

}  // namespace sotto::nn
