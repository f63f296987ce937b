#include "sotto/plan/paper_estimate.h"

#include <algorithm>
#include <cmath>

#include "sotto/core/error.h"
#include "sotto/models/model_profile.h"

namespace sotto::plan {

namespace {

int64_t frames_at(const models::Model& model, const data::Source& source, double percentile) {
  std::vector<int64_t> frames;
  for (int64_t index = 0; index < source.num_items(); ++index)
    frames.push_back(model.size_of(source.size_of(index)).frames);
  const double position = percentile / 100.0 * static_cast<double>(frames.size() - 1);
  const auto nearest = frames.begin() + std::llround(position);
  std::ranges::nth_element(frames, nearest);
  return *nearest;
}

}  // namespace

PaperEstimate estimate_as_papers(const train::RunConfig& config, const models::DataShape& shape,
                                 const data::Source& source, int64_t utterances,
                                 const PaperOptions& options) {
  SOTTO_ASSERT(source.num_items() > 0, "nothing to estimate");
  const models::ModelProfile profile = models::profile_model(config.model, shape);
  const std::unique_ptr<models::Model> model = config.model.make(shape, {.device = at::kMeta});
  const train::Compute compute = config.arithmetic().compute;
  const bool is_half = compute == train::Compute::kBf16 || compute == train::Compute::kFp16;
  // fp32 weights, gradients and two moments; mixed precision adds 16-bit copies of the weights.
  const int64_t bytes_per_parameter = is_half ? 18 : 16;
  PaperEstimate estimate{.frames = frames_at(*model, source, options.percentile),
                         .utterances = utterances,
                         .state_bytes = bytes_per_parameter * profile.trainable +
                                        4 * (profile.parameters - profile.trainable)};
  const double values = options.alpha * static_cast<double>(estimate.frames) *
                        static_cast<double>(profile.width) * static_cast<double>(profile.layers) *
                        static_cast<double>(utterances);
  estimate.activation_bytes = std::llround(values * (is_half ? 2.0 : 4.0));
  return estimate;
}

}  // namespace sotto::plan
