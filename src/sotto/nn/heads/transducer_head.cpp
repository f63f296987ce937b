#include "sotto/nn/heads/transducer_head.h"

#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "sotto/kernels/elementwise/activation.h"
#include "sotto/kernels/elementwise/cast.h"
#include "sotto/kernels/product/gemm.h"

namespace sotto::nn {

namespace {

using device::MomentScope;
using device::Phase;
using kernels::Transducer;

enum Slot : size_t { kEncoded, kPredicted, kEncoderGradient, kPredictionGradient, kNumSlots };

constexpr int64_t kJointDropout = 0;

constexpr std::array<SlotSpec, kNumSlots> kSlots = {{
    {.name = "input"},
    {.name = "result of the prediction network"},
    {.name = "gradient of the projected frames"},
    {.name = "gradient of the projected labels"},
}};

int64_t num_outputs(const TransducerHeadOptions& options) {
  return options.prediction.vocabulary + std::ssize(options.durations);
}

// Draws which utterances of a step have the loss of RNN-T, however the step is split.
std::vector<uint8_t> drawn_without_durations(const TransducerHeadOptions& options,
                                             const Context& context) {
  if (options.omega == 0.0) return {};
  std::vector<uint8_t> drawn;
  for (const UtteranceKey& key : context.packing.keys()) {
    const RandomStream stream(
        {.seed = context.step.seed, .purpose = Purpose::kLossChoice, .step = context.step.step},
        key);
    drawn.push_back(stream.bernoulli(0, options.omega) ? 1 : 0);
  }
  return drawn;
}

}  // namespace

TransducerHead::TransducerHead(ParameterStore& store, const std::string& name,
                               const TransducerHeadOptions& options)
    : options_(options),
      encoder_(store, name + ".encoder", options.width, options.joint_width),
      prediction_(store, name + ".prediction", options.prediction),
      projection_(store, name + ".projection", options.prediction.width, options.joint_width),
      weight_(
          store.declare({.name = name + ".output.weight",
                         .shape = {num_outputs(options), options.joint_width},
                         .deviation = 1.0 / std::sqrt(static_cast<double>(options.joint_width))})),
      bias_(store.declare({.name = name + ".output.bias", .shape = {num_outputs(options)}})) {}

Transducer::Options TransducerHead::loss_options() const {
  return {.blank = options_.prediction.blank,
          .durations = options_.durations,
          .sigma = options_.sigma,
          .chunk_bytes = options_.chunk_bytes};
}

TransducerHead::Result TransducerHead::forward(at::Tensor encoded, const Objective& objective,
                                               const StepContext& step, Tape& tapes) const {
  at::Tensor predicted =
      prediction_.forward({.tokens = objective.predictions.inputs.device_values(),
                           .packing = objective.predictions.packing},
                          step, tapes);
  const Context context = tapes.context(step, layer());
  const MomentScope moment(context.moment(Phase::kForward));
  LayerTape& tape = tapes.open(context.layer, kSlots);
  const at::Tensor frames = project_frames(encoded);
  tape.put(kEncoded, {std::move(encoded)});
  const at::Tensor labels = project_labels(predicted);
  tape.put(kPredicted, {std::move(predicted)});
  const at::Tensor weight = in_type_of(weight_.value, frames);
  const std::vector<uint8_t> without_durations = drawn_without_durations(options_, context);
  GradientSum weight_gradient(weight_);
  Transducer::Result result = Transducer::forward(
      {.encoder = frames,
       .prediction = labels,
       .weight = weight,
       .bias = bias_.value,
       .frames = context.packing,
       .predictions = objective.predictions.packing,
       .labels = objective.labels,
       .dropout = context.dropout(kJointDropout, options_.joint_dropout),
       .without_durations = without_durations},
      objective.weights, {.weight = &weight_gradient.sum(), .bias = &bias_.gradient},
      loss_options());
  weight_gradient.add();
  tape.put(kEncoderGradient, {std::move(result.d_encoder)});
  tape.put(kPredictionGradient, {std::move(result.d_prediction)});
  return {.loss = std::move(result.loss), .infeasible = std::move(result.infeasible)};
}

at::Tensor TransducerHead::backward(const data::DecoderPack& predictions, const StepContext& step,
                                    Tape& tapes) const {
  const Context context = tapes.context(step, layer());
  at::Tensor d_encoded;    // [N, D]
  at::Tensor d_predicted;  // [M, H]
  {
    const MomentScope moment(context.moment(Phase::kBackward));
    LayerTape& tape = tapes.layer(context.layer);
    tape.begin_backward();
    const at::Tensor& d_labels = tape.kept(kPredictionGradient).front();
    projection_.accumulate(d_labels, tape.kept(kPredicted).front());
    tape.release(kPredicted);
    d_predicted = projection_.input_gradient(d_labels);
    tape.release(kPredictionGradient);
    const at::Tensor& d_frames = tape.kept(kEncoderGradient).front();
    encoder_.accumulate(d_frames, tape.kept(kEncoded).front());
    tape.release(kEncoded);
    d_encoded = encoder_.input_gradient(d_frames);
    tapes.close(context.layer);
  }
  prediction_.backward(
      std::move(d_predicted),
      {.tokens = predictions.inputs.device_values(), .packing = predictions.packing}, step, tapes);
  return d_encoded;
}

TransducerHead::Result TransducerHead::evaluate(const at::Tensor& encoded,
                                                const kernels::Packing& packing,
                                                const Objective& objective) const {
  Tape unused;
  at::Tensor labels;  // [M, J]
  {
    const at::Tensor predicted =
        prediction_.forward({.tokens = objective.predictions.inputs.device_values(),
                             .packing = objective.predictions.packing},
                            {.is_training = false}, unused);
    labels = project_labels(predicted);
  }
  const MomentScope moment({.phase = Phase::kForward, .micro_batch = 0, .layer = layer()});
  const at::Tensor frames = project_frames(encoded);
  const at::Tensor weight = in_type_of(weight_.value, frames);
  // Evaluation measures the quality of predictions: sigma is of training.
  Transducer::Options options = loss_options();
  options.sigma = 0.0;
  Transducer::Result result = Transducer::evaluate({.encoder = frames,
                                                    .prediction = labels,
                                                    .weight = weight,
                                                    .bias = bias_.value,
                                                    .frames = packing,
                                                    .predictions = objective.predictions.packing,
                                                    .labels = objective.labels},
                                                   options);
  return {.loss = std::move(result.loss), .infeasible = std::move(result.infeasible)};
}

at::Tensor TransducerHead::logits(const at::Tensor& sums) const {
  const at::Tensor joint = kernels::Relu::forward(sums);
  const at::Tensor weight = in_type_of(weight_.value, joint);
  const at::Tensor logits =
      kernels::Gemm::multiply({.a = joint, .b = weight, .transpose_b = true, .bias = &bias_.value});
  return logits.scalar_type() == at::kFloat ? logits : kernels::Cast::to(logits, at::kFloat);
}

}  // namespace sotto::nn
