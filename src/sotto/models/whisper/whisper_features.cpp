#include "sotto/models/whisper/whisper_features.h"

#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "sotto/kernels/elementwise/cast.h"
#include "sotto/models/option_checks.h"
#include "sotto/nn/fronts/spec_mask.h"

namespace sotto::models {

namespace {

using device::Category;
using device::CategoryScope;
using kernels::LogMel;
using kernels::Packing;

LogMel::Tables tables_of(const WhisperOptions& options, const DataShape& shape,
                         const at::Device& device) {
  if (shape.feature_dim > 0)
    refuse_settings(fmt::format("stored features of width {}", shape.feature_dim),
                    "audio: Whisper computes its features itself");
  const CategoryScope category(Category::kWeights);
  return {options.features, device};
}

nn::SpecMaskOptions span_options(const WhisperOptions& options) {
  return {.width = options.features.num_mels,
          .frames = {.probability = options.mask_time_probability,
                     .length = options.mask_time_length,
                     .min_spans = options.mask_time_min},
          .features = {.probability = options.mask_feature_probability,
                       .length = options.mask_feature_length,
                       .min_spans = options.mask_feature_min},
          .is_on = options.mask};
}

}  // namespace

WhisperFeatures::WhisperFeatures(const WhisperOptions& options, const DataShape& shape,
                                 const at::Device& device, at::ScalarType compute)
    : options_(options), compute_(compute), tables_(tables_of(options, shape, device)) {}

int64_t WhisperFeatures::num_frames(int64_t samples) const {
  return LogMel::num_frames(adds_silence() ? options_.window_samples() : samples,
                            options_.features);
}

Packing WhisperFeatures::frames_of(const data::MicroBatch& batch) const {
  std::vector<int64_t> lengths;
  for (const int64_t samples : batch.packing.lengths()) lengths.push_back(num_frames(samples));
  return {std::move(lengths), batch.values.device(), batch.packing.keys()};
}

at::Tensor WhisperFeatures::with_silence(const data::MicroBatch& batch) const {
  const int64_t window = options_.window_samples();
  const Packing& packing = batch.packing;
  at::Tensor wave = at::empty({packing.num_utterances() * window}, batch.values.options());
  if (wave.is_meta()) return wave;
  wave.zero_();
  for (size_t u = 0; u < packing.lengths().size(); ++u) {
    const int64_t length = packing.lengths()[u];
    SOTTO_ASSERT(length <= window, "an utterance of {} samples in a window of {}", length, window);
    wave.narrow(0, static_cast<int64_t>(u) * window, length)
        .copy_(batch.values.narrow(0, packing.starts()[u], length));
  }
  return wave;
}

at::Tensor WhisperFeatures::log_mel(const data::MicroBatch& batch) const {
  if (!adds_silence()) return LogMel::forward(batch.values, batch.packing, tables_);
  const CategoryScope category(Category::kData);
  const at::Tensor wave = with_silence(batch);
  const Packing windows(
      std::vector<int64_t>(batch.packing.lengths().size(), options_.window_samples()),
      wave.device());
  return LogMel::forward(wave, windows, tables_);
}

at::Tensor WhisperFeatures::forward(const data::MicroBatch& batch,
                                    const nn::Context& context) const {
  at::Tensor features = log_mel(batch);
  nn::SpecMask::apply_zeros(features, context, span_options(options_));
  return compute_ == at::kFloat ? features : kernels::Cast::to(features, compute_);
}

int64_t WhisperFeatures::min_samples(const WhisperOptions& options) {
  return options.window == WhisperWindow::kWhole ? 1 : LogMel::min_samples(options.features);
}

}  // namespace sotto::models
