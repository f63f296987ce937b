#include "sotto/models/parts/speech_features.h"

#include "sotto/kernels/elementwise/cast.h"
#include "sotto/kernels/norm/group_norm.h"
#include "sotto/models/option_checks.h"
#include "sotto/nn/constant.h"

namespace sotto::models {

namespace {

using kernels::LogMel;
using kernels::Packing;

int64_t width_of(const SpeechFeatureOptions& options, const DataShape& shape) {
  return shape.feature_dim > 0 ? shape.feature_dim : options.log_mel.num_mels;
}

void check_features(const SpeechFeatureOptions& options, const DataShape& shape) {
  if (shape.feature_dim > 0 && options.log_mel != options.usual_log_mel)
    refuse_settings("features of the waveform, but the data has stored ones",
                    "no settings in features");
  // A mask as wide as all features could hide whole utterances.
  const int64_t width = width_of(options, shape);
  if (options.masks.frequency_masks > 0 && options.masks.frequency_width >= width)
    refuse_settings(fmt::format("spec_augment.frequency_width {}", options.masks.frequency_width),
                    fmt::format("fewer than the {} features of a frame", width));
}

std::optional<LogMel::Tables> tables_for(const SpeechFeatureOptions& options,
                                         const DataShape& shape, const at::Device& device) {
  check_features(options, shape);
  if (shape.feature_dim > 0) return std::nullopt;
  const device::CategoryScope category(device::Category::kWeights);
  return LogMel::Tables(options.log_mel, device);
}

}  // namespace

SpeechFeatures::SpeechFeatures(const SpeechFeatureOptions& options, const DataShape& shape,
                               const at::Device& device, at::ScalarType compute)
    : options_(options),
      width_(width_of(options_, shape)),
      compute_(compute),
      log_mel_(tables_for(options_, shape, device)),
      normalisation_{.gamma = nn::constant(width_, 1.0, device),
                     .beta = nn::constant(width_, 0.0, device)} {}

int64_t SpeechFeatures::num_frames(int64_t rows) const {
  return log_mel_ ? LogMel::num_frames(rows, options_.log_mel) : rows;
}

Packing SpeechFeatures::frames_of(const data::MicroBatch& batch) const {
  if (!log_mel_) return batch.packing;
  return {LogMel::frame_lengths(batch.packing, options_.log_mel), batch.values.device(),
          batch.packing.keys()};
}

at::Tensor SpeechFeatures::forward(const data::MicroBatch& batch,
                                   const nn::Context& context) const {
  at::Tensor features = normalised(batch, context.packing);
  nn::SpecAugment::apply(features, context, options_.masks);
  return compute_ == at::kFloat ? features : kernels::Cast::to(features, compute_);
}

int64_t SpeechFeatures::min_rows(const kernels::LogMelOptions& log_mel, int64_t feature_dim) {
  return feature_dim > 0 ? 1 : LogMel::min_samples(log_mel);
}

at::Tensor SpeechFeatures::normalised(const data::MicroBatch& batch, const Packing& frames) const {
  at::Tensor raw =
      log_mel_ ? LogMel::forward(batch.values, batch.packing, *log_mel_) : batch.values;
  // These features are already normalised.
  if (log_mel_ && options_.log_mel.kind == kernels::LogMelKind::kNemo) return raw;
  return kernels::GroupNorm::forward(raw, frames,
                                     {.gamma = normalisation_.gamma,
                                      .beta = normalisation_.beta,
                                      .num_groups = raw.size(1)})
      .y;
}

}  // namespace sotto::models
