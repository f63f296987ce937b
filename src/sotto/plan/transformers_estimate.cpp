#include "sotto/plan/transformers_estimate.h"

#include <algorithm>
#include <cmath>

#include "sotto/core/error.h"
#include "sotto/models/model_profile.h"
#include "sotto/models/wav2vec2/wav2vec2_options.h"

namespace sotto::plan {

namespace {

using models::Wav2Vec2Options;

// Bytes that a block keeps for backward, per token and value of the width. In 16 bits:
//   residuals before both norms, fp32                                   4 + 4
//   inputs of the four projections of attention, cast one by one        6 + 2
//   q, k, v, and attention's result as it comes                         6 + 2
//   input of the first product, its result, what dropout leaves of it   2 + 8 + 8
//   masks of the three dropouts                                         1 + 4 + 1
// and about one more for tensors outside blocks. In fp32 the norm's result is shared by q, k and v.
constexpr double kHalfBytes = 49.0;
constexpr double kSingleBytes = 75.0;
// Checkpointed blocks keep their fp32 inputs.
constexpr double kCheckpointBytes = 4.0;
// Bytes per score of eager attention in fp32: the softmax, its dropout's mask and result.
constexpr double kScoreBytes = 9.0;
// SDPA copies the padding mask for every block.
constexpr double kMaskHalves = 0.75;

// Temporary bytes of the feature encoder's first convolution per value of its result: the fp32 norm
// takes the most. With a norm over channels the transposed copy is added.
struct FrontBytes {
  double half;
  double single;
};
constexpr FrontBytes kGroupNormBytes = {.half = 10.1, .single = 12.1};
constexpr FrontBytes kLayerNormBytes = {.half = 14.2, .single = 16.2};

const Wav2Vec2Options& known_network(const models::ModelOptions& model) {
  if (const auto* found = model.find<Wav2Vec2Options>()) return *found;
  throw ConfigError({.attempted = "estimating the memory of transformers",
                     .found = fmt::format("a network of {}", model.family().name),
                     .expected = "one that transformers trains as well: wav2vec2 or XLS-R",
                     .hint = "Choose one, such as --model wav2vec2-base."});
}

// The convolutions have no padding.
int64_t frames_of(const Wav2Vec2Options& network, double seconds) {
  auto length = static_cast<int64_t>(seconds * static_cast<double>(network.sample_rate));
  for (size_t i = 0; i < network.conv_kernels.size(); ++i)
    length = (length - network.conv_kernels[i]) / network.conv_strides[i] + 1;
  return length;
}

double front_bytes(const Wav2Vec2Options& network, const PaddedTraining& training) {
  const FrontBytes& bytes =
      network.conv_norm == nn::WaveNormKind::kGroup ? kGroupNormBytes : kLayerNormBytes;
  const double values = static_cast<double>(training.utterances) * training.seconds *
                        static_cast<double>(network.sample_rate) /
                        static_cast<double>(network.conv_strides.front()) *
                        static_cast<double>(network.conv_widths.front());
  return values * (training.is_half ? bytes.half : bytes.single);
}

// Bytes that blocks keep for backward: all of them, and one.
struct BlockBytes {
  double all = 0.0;
  double one = 0.0;
};

BlockBytes block_bytes(const Wav2Vec2Options& network, const PaddedTraining& training) {
  const auto frames = static_cast<double>(frames_of(network, training.seconds));
  const double tokens = static_cast<double>(training.utterances) * frames;
  const auto width = static_cast<double>(network.width),
             layers = static_cast<double>(network.layers);
  double one = tokens * width * (training.is_half ? kHalfBytes : kSingleBytes);
  // Models with a norm over channels receive the padding mask.
  if (network.conv_norm == nn::WaveNormKind::kLayer && !training.is_eager)
    one += tokens * frames * kMaskHalves * (training.is_half ? 2.0 : 4.0);
  if (training.is_eager) one += tokens * frames * static_cast<double>(network.heads) * kScoreBytes;
  if (!training.checkpoints) return {.all = layers * one, .one = one};
  return {.all = layers * tokens * width * kCheckpointBytes + one, .one = one};
}

}  // namespace

TransformersMemory estimate_transformers(const models::ModelOptions& model,
                                         const PaddedTraining& training) {
  const Wav2Vec2Options& network = known_network(model);
  models::ModelOptions frozen = model;
  frozen.as<Wav2Vec2Options>().freeze_feature_encoder = true;
  const models::ModelProfile profile =
      models::profile_model(frozen, {.vocabulary = model.usual_vocabulary()});
  const BlockBytes blocks = block_bytes(network, training);
  // Autocast keeps its copies of weights until the backward of their products.
  const double copies = training.is_half && !training.checkpoints
                            ? 2.0 * static_cast<double>(profile.trainable)
                            : 0.0;
  const double in_forward = std::max(front_bytes(network, training), blocks.all + copies);
  TransformersMemory memory{.weights = 4 * profile.parameters,
                            .gradients = 4 * profile.trainable,
                            .moments = (training.has_8bit_moments ? 2 : 8) * profile.trainable,
                            .micro_batch = std::llround(in_forward)};
  // With accumulation, gradients of earlier micro-batches exist from the beginning; else they are
  // allocated as activations are freed.
  const auto gradients = static_cast<double>(memory.gradients);
  const double moving = training.accumulation > 1 ? gradients + in_forward
                                                  : std::max(in_forward, gradients + blocks.one);
  memory.peak = memory.weights + memory.moments + std::llround(moving);
  return memory;
}

int64_t with_reserve(int64_t peak_bytes) {
  constexpr int64_t kDriverBytes = int64_t{512} << 20;
  return peak_bytes + peak_bytes / 4 + kDriverBytes;
}

namespace {

// Speed relative to a large micro-batch without checkpointing, which computes three parts where
// checkpointing computes four; fewer than kFull utterances do not fill a GPU.
double relative_speed(const PaddedTraining& training) {
  constexpr double kFull = 16.0;
  const double filled = std::min(1.0, static_cast<double>(training.utterances) / kFull);
  return filled * (training.checkpoints ? 0.75 : 1.0);
}

}  // namespace

std::optional<TransformersChoice> choose_transformers(const models::ModelOptions& model,
                                                      const TransformersRequest& request) {
  std::optional<TransformersChoice> best;
  for (const bool has_8bit_moments : {false, true}) {
    for (const bool checkpoints : {false, true}) {
      for (int64_t utterances = request.effective_batch; utterances > 0; utterances /= 2) {
        if (request.effective_batch % utterances != 0) continue;
        const PaddedTraining training{.utterances = utterances,
                                      .seconds = request.longest_s,
                                      .accumulation = request.effective_batch / utterances,
                                      .is_half = request.is_half,
                                      .checkpoints = checkpoints,
                                      .has_8bit_moments = has_8bit_moments};
        const TransformersMemory memory = estimate_transformers(model, training);
        if (with_reserve(memory.peak) > request.budget_bytes) continue;
        if (!best || relative_speed(training) > relative_speed(best->training))
          best = {.training = training, .memory = memory};
        break;
      }
    }
    // Approximate moments are used only where exact ones do not fit.
    if (best) return best;
  }
  return best;
}

}  // namespace sotto::plan
