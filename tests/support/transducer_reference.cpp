#include "support/transducer_reference.h"

#include <cmath>
#include <limits>
#include <utility>

#include "sotto/kernels/base/labels.h"
#include "sotto/kernels/loss/transducer.h"
#include "support/ctc_pack.h"
#include "support/kernel_case_tools.h"

namespace sotto::test {

namespace {

using kernels::Transducer;

constexpr double kImpossible = -std::numeric_limits<double>::infinity();

// One way to leave a node: to another, or to the end, which is one more.
struct Step {
  size_t to;
  int64_t output;    // of the blank or label
  int64_t duration;  // output of the duration; -1: none
};

// The sums over the alignments of one utterance.
class Lattice {
 public:
  Lattice(const TransducerPack& pack, size_t utterance, at::Tensor log_probabilities)
      : pack_(pack),
        labels_(pack.labels[utterance]),
        num_frames_(pack.frames[utterance]),
        has_durations_(!pack.durations.empty() &&
                       (pack.without_durations.empty() || pack.without_durations[utterance] == 0)),
        logs_(std::move(log_probabilities)) {}

  // The loss, and its gradient by the log-probabilities [T (U + 1), E + D].
  std::pair<double, at::Tensor> run() const {
    const size_t num_nodes = static_cast<size_t>(num_frames_) * row();
    std::vector<double> reach(num_nodes + 1, kImpossible);
    reach[0] = 0.0;
    for (size_t node = 0; node < num_nodes; ++node) {
      for (const Step& step : steps_from(node)) {
        const double log = reach[node] + log_of(node, step);
        const double top = std::max(reach[step.to], log);
        if (top == kImpossible) continue;
        reach[step.to] = top + std::log(std::exp(reach[step.to] - top) + std::exp(log - top));
      }
    }
    at::Tensor gradient = at::zeros_like(logs_);
    if (reach.back() == kImpossible) return {0.0, gradient};
    std::vector<double> adjoint(num_nodes + 1, 0.0);
    adjoint.back() = -1.0;
    auto of = gradient.accessor<double, 2>();
    for (size_t node = num_nodes; node-- > 0;) {
      for (const Step& step : steps_from(node)) {
        if (reach[node] == kImpossible) continue;
        const double share = std::exp(reach[node] + log_of(node, step) - reach[step.to]);
        const auto at = static_cast<int64_t>(node);
        adjoint[node] += share * adjoint[step.to];
        of[at][step.output] += share * adjoint[step.to];
        if (step.duration >= 0) of[at][step.duration] += share * adjoint[step.to];
      }
    }
    return {-reach.back(), gradient};
  }

 private:
  size_t row() const { return labels_.size() + 1; }

  double log_of(size_t node, const Step& step) const {
    const auto of = logs_.accessor<double, 2>();
    const auto at = static_cast<int64_t>(node);
    if (step.duration < 0) return of[at][step.output];
    return of[at][step.output] - pack_.sigma + of[at][step.duration];
  }

  // Nodes in the order of frames and, within a frame, of labels: all steps lead forward.
  std::vector<Step> steps_from(size_t node) const {
    const auto frame = static_cast<int64_t>(node / row());
    const size_t label = node % row();
    const size_t end = static_cast<size_t>(num_frames_) * row();
    std::vector<Step> steps;
    const auto add = [&](int64_t advance, bool is_blank, int64_t duration) {
      const size_t to_label = is_blank ? label : label + 1;
      const int64_t output = is_blank ? pack_.blank : labels_[std::min(label, row() - 2)];
      if (frame + advance < num_frames_) {
        const size_t to = static_cast<size_t>(frame + advance) * row() + to_label;
        steps.push_back({.to = to, .output = output, .duration = duration});
      } else if (is_blank && frame + advance == num_frames_ && label + 1 == row()) {
        steps.push_back({.to = end, .output = output, .duration = duration});
      }
    };
    const bool has_label = label + 1 < row();
    if (!has_durations_) {
      add(1, true, -1);
      if (has_label) add(0, false, -1);
      return steps;
    }
    const int64_t first = logs_.size(1) - std::ssize(pack_.durations);
    for (size_t i = 0; i < pack_.durations.size(); ++i) {
      const int64_t output = first + static_cast<int64_t>(i);
      if (pack_.durations[i] > 0) add(pack_.durations[i], true, output);
      if (has_label) add(pack_.durations[i], false, output);
    }
    return steps;
  }

  const TransducerPack& pack_;
  const std::vector<int32_t>& labels_;
  const int64_t num_frames_;
  const bool has_durations_;
  const at::Tensor logs_;
};

// What the joint network's values are multiplied by, [T (U + 1), J].
at::Tensor dropout_factors(const TransducerPack& pack, size_t utterance, at::IntArrayRef sizes) {
  const uint32_t threshold = kernels::dropout_threshold(pack.dropout.probability);
  at::Tensor factors = at::full(sizes, pack.dropout.scale, at::kDouble);
  if (threshold == 0) return factors;
  const UtteranceKey key =
      pack.keys.empty() ? UtteranceKey{.utterance = utterance} : pack.keys[utterance];
  auto* values = factors.mutable_data_ptr<double>();
  for (int64_t element = 0; element < factors.numel(); ++element) {
    const PhiloxCounter bits = kernels::dropout_bits(static_cast<uint64_t>(element / 8), fold(key),
                                                     fold(pack.dropout.key));
    const bool keeps = kernels::dropout_keeps(bits, element % 8, threshold);
    values[element] *= keeps ? kernels::dropout_scale(threshold) : 0.0;
  }
  return factors;
}

// A pack on the device of the inputs.
struct Bound {
  kernels::Packing frames;
  kernels::Packing predictions;
  kernels::Labels labels;
  Transducer::Inputs inputs;
  Transducer::Options options;

  Bound(const TransducerPack& pack, const TransducerInputs& in, int64_t nodes)
      : frames(pack.frames, in.encoder.device(), pack.keys),
        predictions(pack.predictions(), in.encoder.device()),
        labels(pack.labels, in.encoder.device()),
        inputs{.encoder = in.encoder,
               .prediction = in.prediction,
               .weight = in.weight,
               .bias = in.bias,
               .frames = frames,
               .predictions = predictions,
               .labels = labels,
               .dropout = pack.dropout,
               .without_durations = pack.without_durations},
        options{.blank = pack.blank, .durations = pack.durations, .sigma = pack.sigma} {
    const int64_t padded = (in.weight.size(0) + 7) / 8 * 8;
    options.chunk_bytes = nodes * padded * static_cast<int64_t>(in.encoder.itemsize());
  }
};

}  // namespace

std::vector<int64_t> TransducerPack::predictions() const {
  std::vector<int64_t> lengths;
  for (const std::vector<int32_t>& of_utterance : labels)
    lengths.push_back(std::ssize(of_utterance) + 1);
  return lengths;
}

TransducerProblem draw_transducer(TransducerPack pack, const std::vector<int64_t>& num_labels,
                                  const TransducerSizes& sizes) {
  Dice dice(17);
  for (const int64_t count : num_labels)
    pack.labels.push_back(draw_labels(dice, count, sizes.entries, pack.blank));
  int64_t num_frames = 0, num_predictions = 0;
  for (const int64_t length : pack.frames) num_frames += length;
  for (const int64_t length : pack.predictions()) num_predictions += length;
  for (size_t u = pack.weights.size(); u < pack.frames.size(); ++u)
    pack.weights.push_back(0.25f + static_cast<float>(u));
  const int64_t num_outputs = sizes.entries + std::ssize(pack.durations);
  const auto draw = [&](at::IntArrayRef shape, uint64_t seed, double scale) {
    return (random_values(shape, seed) * scale).to(at::kFloat);
  };
  const double scale = 2.0 / std::sqrt(static_cast<double>(sizes.width));
  return {.pack = std::move(pack),
          .inputs = {.encoder = draw({num_frames, sizes.width}, 1, 1.0),
                     .prediction = draw({num_predictions, sizes.width}, 2, 1.0),
                     .weight = draw({num_outputs, sizes.width}, 3, scale),
                     .bias = draw({num_outputs}, 4, 1.0)}};
}

TransducerResults transducer_reference(const TransducerPack& pack, const TransducerInputs& in) {
  const at::Tensor encoder = leaf(in.encoder), prediction = leaf(in.prediction);
  const at::Tensor weight = leaf(in.weight), bias = leaf(in.bias);
  const std::vector<at::Tensor> frames = encoder.split_with_sizes(pack.frames);
  const std::vector<at::Tensor> predictions = prediction.split_with_sizes(pack.predictions());
  const int64_t num_durations = std::ssize(pack.durations);
  const int64_t num_entries = weight.size(0) - num_durations;
  std::vector<double> losses;
  TransducerResults results;
  at::Tensor total = at::zeros({}, at::kDouble);
  for (size_t u = 0; u < frames.size(); ++u) {
    const at::Tensor sums = frames[u].unsqueeze(1) + predictions[u];  // [T, U + 1, J]
    const at::Tensor values = at::relu(sums).reshape({-1, weight.size(1)});
    const at::Tensor logits =
        at::addmm(bias, values * dropout_factors(pack, u, values.sizes()), weight.t());
    const std::vector<at::Tensor> parts = logits.split_with_sizes({num_entries, num_durations}, 1);
    const at::Tensor logs =
        at::cat({at::log_softmax(parts[0], 1), at::log_softmax(parts[1], 1)}, 1);
    const auto [loss, gradient] = Lattice(pack, u, logs.detach()).run();
    if (loss == 0.0) results.infeasible.push_back(static_cast<int64_t>(u));
    losses.push_back(loss);
    total = total + (logs * gradient).sum() * pack.weights[u];
  }
  total.backward();
  results.loss = at::tensor(losses, at::kDouble);
  results.d_encoder = encoder.grad();
  results.d_prediction = prediction.grad();
  results.grad_weight = weight.grad();
  results.grad_bias = bias.grad();
  return results;
}

TransducerResults run_transducer(const TransducerPack& pack, const TransducerInputs& in,
                                 int64_t nodes) {
  const Bound bound(pack, in, nodes);
  TransducerResults results;
  results.grad_weight = float_zeros(in.weight.sizes(), in.weight);
  results.grad_bias = float_zeros(in.bias.sizes(), in.bias);
  const Transducer::Result result = Transducer::forward(
      bound.inputs, pack.weights, {.weight = &results.grad_weight, .bias = &results.grad_bias},
      bound.options);
  results.loss = result.loss;
  results.d_encoder = result.d_encoder;
  results.d_prediction = result.d_prediction;
  results.infeasible = result.infeasible;
  return results;
}

at::Tensor evaluate_transducer(const TransducerPack& pack, const TransducerInputs& in,
                               int64_t nodes) {
  const Bound bound(pack, in, nodes);
  return Transducer::evaluate(bound.inputs, bound.options).loss;
}

}  // namespace sotto::test
