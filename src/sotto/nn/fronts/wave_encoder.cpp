#include "sotto/nn/fronts/wave_encoder.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/device/memory_scope.h"
#include "sotto/kernels/base/kernel.h"
#include "sotto/kernels/elementwise/column_sum.h"

namespace sotto::nn {

namespace {

using kernels::ColumnSum;
using kernels::Convolution;
using kernels::WaveNorm;

// Large enough that products fill a GPU; on a CPU small enough that results stay in its caches.
struct PieceSlots {
  int64_t most;
  // The last piece is padded to a multiple of this.
  int64_t filled_to;
};

constexpr PieceSlots kOnGpu{.most = 2048, .filled_to = 256};
constexpr PieceSlots kOnCpu{.most = 64, .filled_to = 16};

PieceSlots slots_for(const at::Tensor& samples) {
  return kernels::is_for_cuda(samples) ? kOnGpu : kOnCpu;
}

at::Tensor zeroed_as(const at::Tensor& tensor) {
  at::Tensor result = at::empty_like(tensor);
  if (!result.is_meta()) result.zero_();
  return result;
}

}  // namespace

WaveEncoder::WaveEncoder(ParameterStore& store, const std::string& name,
                         const WaveEncoderOptions& options)
    : options_(options) {
  int64_t inputs = 1;
  for (size_t i = 0; i < options.widths.size(); ++i) {
    const int64_t outputs = options.widths[i];
    const int64_t columns = options.kernels[i] * inputs;
    const std::string convolution = fmt::format("{}.conv{}", name, i);
    const std::string norm = fmt::format("{}.norm{}", name, i);
    stages_.push_back(
        {.convolution = {.size = options.kernels[i], .stride = options.strides[i]},
         .weight = store.declare({.name = convolution + ".weight",
                                  .shape = {outputs, columns},
                                  .deviation = std::sqrt(2.0 / static_cast<double>(columns))}),
         .bias = options.has_bias
                     ? &store.declare({.name = convolution + ".bias", .shape = {outputs}})
                     : nullptr,
         .norm = options.norm == WaveNormKind::kLayer
                     ? std::optional<Norm>(std::in_place, store, norm, outputs, NormKind::kLayer)
                     : std::nullopt});
    if (is_folded(i)) {
      gamma_ = &store.declare({.name = norm + ".weight", .shape = {outputs}, .mean = 1.0});
      beta_ = &store.declare({.name = norm + ".bias", .shape = {outputs}});
    }
    inputs = outputs;
  }
}

bool WaveEncoder::is_folded(size_t stage) const {
  return stage == 0 && options_.norm == WaveNormKind::kGroup;
}

WaveNorm::Options WaveEncoder::wave_options() const {
  return {.size = options_.kernels.front(), .stride = options_.strides.front()};
}

int64_t WaveEncoder::num_frames(int64_t num_samples) const {
  int64_t frames = num_samples;
  for (const Stage& stage : stages_) frames = Convolution::num_results(frames, stage.convolution);
  return frames;
}

int64_t WaveEncoder::samples_per_frame(const std::vector<int64_t>& kernels,
                                       const std::vector<int64_t>& strides) {
  int64_t samples = 1;
  for (size_t i = kernels.size(); i-- > 0;) samples = (samples - 1) * strides[i] + kernels[i];
  return samples;
}

int64_t WaveEncoder::total_stride() const {
  int64_t product = 1;
  for (const int64_t stride : options_.strides) product *= stride;
  return product;
}

at::Tensor WaveEncoder::forward(const at::Tensor& samples, const Packings& packings,
                                at::ScalarType type) const {
  at::Tensor y = at::empty({packings.frames.num_frames(), width()}, samples.options().dtype(type));
  const Wave wave = prepare(samples, packings, type);
  for_each_piece(wave, packings, [&](const Piece& piece) {
    at::Tensor h = piece.samples;
    for (size_t stage = 0; stage < stages_.size(); ++stage)
      h = activated(run_stage(stage, std::move(h), piece, wave));
    if (y.is_meta()) return;
    for (const Segment& segment : piece.segments)
      y.narrow(0, segment.first_row, segment.count)
          .copy_(h.narrow(0, segment.first_slot, segment.count));
  });
  return y;
}

void WaveEncoder::backward(const at::Tensor& dy, const at::Tensor& samples,
                           const Packings& packings) const {
  const Wave wave = prepare(samples, packings, dy.scalar_type());
  WeightGradients gradients;
  for (const Stage& stage : stages_) gradients.sums.emplace_back(stage.weight);
  if (is_folded(0)) {
    const device::CategoryScope category(device::Category::kWorkspace);
    gradients.d_folded = {.weight = zeroed_as(wave.folded.weight),
                          .bias = zeroed_as(wave.folded.bias)};
  }
  for_each_piece(wave, packings, [&](const Piece& piece) {
    // The gradient of discarded frames is zero.
    at::Tensor d_piece = at::empty({piece.num_slots, width()}, dy.options());
    if (!d_piece.is_meta()) {
      d_piece.zero_();
      for (const Segment& segment : piece.segments)
        d_piece.narrow(0, segment.first_slot, segment.count)
            .copy_(dy.narrow(0, segment.first_row, segment.count));
    }
    backward_piece(piece, std::move(d_piece), wave, gradients);
  });
  if (is_folded(0)) {
    WaveNorm::backward(
        gradients.d_folded, wave.statistics,
        {.weight = stages_.front().weight.value, .gamma = gamma_->value, .beta = beta_->value},
        {.weight = gradients.sums.front().sum(),
         .gamma = gamma_->gradient,
         .beta = beta_->gradient},
        wave_options());
  }
  for (GradientSum& sum : gradients.sums) sum.add();
}

// Rows at the border of two pieces are computed in both: each adds the contribution of its own
// frames.
void WaveEncoder::backward_piece(const Piece& piece, at::Tensor dy, const Wave& wave,
                                 WeightGradients& gradients) const {
  std::vector<Kept> kept;
  for (size_t stage = 0; stage < stages_.size(); ++stage)
    kept.push_back(
        run_stage(stage, stage == 0 ? piece.samples : activated(kept.back()), piece, wave));
  for (size_t stage = stages_.size(); stage-- > 0;) {
    const Stage& own = stages_[stage];
    Kept& now = kept[stage];
    activation_backward(options_.activation, dy, own.norm ? now.normed.front() : now.product);
    if (own.norm) {
      now.normed.front().reset();
      dy = own.norm->backward(dy, now.product, now.normed);
    }
    now.product.reset();
    accumulate(stage, dy, now.input, piece, wave, gradients);
    if (stage > 0) {
      const at::Tensor weight = in_type_of(own.weight.value, dy);
      dy = Convolution::input_gradient(dy, weight, now.input.size(0), own.convolution);
    }
    kept.pop_back();
  }
}

void WaveEncoder::accumulate(size_t stage, const at::Tensor& dy, const at::Tensor& input,
                             const Piece& piece, const Wave& wave,
                             WeightGradients& gradients) const {
  const Stage& own = stages_[stage];
  if (!is_folded(stage)) {
    Convolution::accumulate(gradients.sums[stage].sum(), dy, input, own.convolution);
    if (own.bias != nullptr) ColumnSum::accumulate(own.bias->gradient, dy);
    return;
  }
  const auto [size, stride] = own.convolution;
  for (const Share& share : shares_of(piece, wave, dy.size(0))) {
    const at::Tensor dy_share = dy.narrow(0, share.first, share.count);
    at::Tensor d_weight = gradients.d_folded.weight.select(0, share.utterance);
    at::Tensor d_bias = gradients.d_folded.bias.select(0, share.utterance);
    Convolution::accumulate(
        d_weight, dy_share,
        input.narrow(0, share.first * stride, (share.count - 1) * stride + size), own.convolution);
    ColumnSum::accumulate(d_bias, dy_share);
  }
}

WaveEncoder::Wave WaveEncoder::prepare(const at::Tensor& samples, const Packings& packings,
                                       at::ScalarType type) const {
  const int64_t stride = total_stride();
  Wave wave;
  for (const int64_t length : packings.samples.lengths()) {
    wave.first_slots.push_back(wave.num_slots);
    wave.num_slots += (length + stride - 1) / stride;
  }
  const int64_t filled_to = slots_for(samples).filled_to;
  wave.num_slots = (wave.num_slots + filled_to - 1) / filled_to * filled_to;
  const device::CategoryScope category(device::Category::kWorkspace);
  const int64_t num_samples = (wave.num_slots - 1) * stride + samples_per_frame();
  wave.samples = at::empty({num_samples, 1}, samples.options().dtype(type));
  if (!wave.samples.is_meta()) {
    wave.samples.zero_();
    for (size_t u = 0; u < wave.first_slots.size(); ++u) {
      const int64_t length = packings.samples.lengths()[u];
      wave.samples.view(-1)
          .narrow(0, wave.first_slots[u] * stride, length)
          .copy_(samples.narrow(0, packings.samples.starts()[u], length));
    }
  }
  if (!is_folded(0)) return wave;
  wave.statistics = WaveNorm::statistics(samples, packings.samples, wave_options());
  wave.folded = WaveNorm::fold(
      wave.statistics,
      {.weight = stages_.front().weight.value, .gamma = gamma_->value, .beta = beta_->value},
      wave_options());
  return wave;
}

void WaveEncoder::for_each_piece(const Wave& wave, const Packings& packings,
                                 const std::function<void(const Piece&)>& body) const {
  const int64_t most =
      options_.piece_frames > 0 ? options_.piece_frames : slots_for(wave.samples).most;
  for (int64_t first = 0; first < wave.num_slots; first += most) {
    const int64_t count = std::min(most, wave.num_slots - first);
    Piece piece{.first_slot = first,
                .num_slots = count,
                .samples = wave.samples.narrow(0, first * total_stride(),
                                               (count - 1) * total_stride() + samples_per_frame()),
                .segments = {}};
    for (size_t u = 0; u < wave.first_slots.size(); ++u) {
      const int64_t from = std::max(first, wave.first_slots[u]);
      const int64_t end =
          std::min(first + count, wave.first_slots[u] + packings.frames.lengths()[u]);
      if (from >= end) continue;
      piece.segments.push_back(
          {.first_slot = from - first,
           .first_row = packings.frames.starts()[u] + from - wave.first_slots[u],
           .count = end - from});
    }
    body(piece);
  }
}

// Assigns results by the slot in which they begin; those after the last utterance belong to it.
std::vector<WaveEncoder::Share> WaveEncoder::shares_of(const Piece& piece, const Wave& wave,
                                                       int64_t num_results) const {
  const int64_t results_per_slot = total_stride() / stages_.front().convolution.stride;
  std::vector<Share> shares;
  for (size_t u = 0; u < wave.first_slots.size(); ++u) {
    const bool is_last = u + 1 == wave.first_slots.size();
    const int64_t first =
        std::max<int64_t>(0, (wave.first_slots[u] - piece.first_slot) * results_per_slot);
    const int64_t end = is_last
                            ? num_results
                            : std::min(num_results, (wave.first_slots[u + 1] - piece.first_slot) *
                                                        results_per_slot);
    if (first < end)
      shares.push_back(
          {.utterance = static_cast<int64_t>(u), .first = first, .count = end - first});
  }
  return shares;
}

at::Tensor WaveEncoder::product_of(size_t stage, const at::Tensor& input, const Piece& piece,
                                   const Wave& wave) const {
  if (is_folded(stage)) return folded_product(input, piece, wave);
  const Stage& own = stages_[stage];
  return Convolution::forward(input, in_type_of(own.weight.value, input),
                              own.bias == nullptr ? nullptr : &own.bias->value, own.convolution);
}

at::Tensor WaveEncoder::folded_product(const at::Tensor& input, const Piece& piece,
                                       const Wave& wave) const {
  const Convolution::Options& convolution = stages_.front().convolution;
  at::Tensor product =
      at::empty({Convolution::num_results(input.size(0), convolution), options_.widths.front()},
                input.options());
  for (const Share& share : shares_of(piece, wave, product.size(0))) {
    const at::Tensor weight = in_type_of(wave.folded.weight.select(0, share.utterance), input);
    const at::Tensor bias = wave.folded.bias.select(0, share.utterance);
    at::Tensor part = product.narrow(0, share.first, share.count);
    Convolution::forward_into(
        part,
        input.narrow(0, share.first * convolution.stride,
                     (share.count - 1) * convolution.stride + convolution.size),
        weight, &bias, convolution);
  }
  return product;
}

WaveEncoder::Kept WaveEncoder::run_stage(size_t stage, at::Tensor input, const Piece& piece,
                                         const Wave& wave) const {
  const Stage& own = stages_[stage];
  Kept kept{.input = std::move(input), .product = {}, .normed = {}};
  kept.product = product_of(stage, kept.input, piece, wave);
  if (own.norm) kept.normed = own.norm->forward(kept.product);
  return kept;
}

at::Tensor WaveEncoder::activated(const Kept& kept) const {
  return activate(options_.activation, kept.normed.empty() ? kept.product : kept.normed.front());
}

}  // namespace sotto::nn
