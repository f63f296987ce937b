// Rows of the kernel table: the transducer loss. Inputs are the projections of encoder and
// prediction network, weight and bias of the output layer; results the losses twice, the gradients
// of all of them.
#include <cmath>

#include "support/kernel_case_tools.h"
#include "support/transducer_reference.h"

namespace sotto::test {

namespace {

constexpr int64_t kEntries = 11;

// None, few, and more labels than frames.
std::vector<std::vector<int32_t>> labels_for(const std::vector<int64_t>& frames, int64_t blank) {
  std::vector<std::vector<int32_t>> labels;
  for (size_t u = 0; u < frames.size(); ++u) {
    labels.emplace_back();
    for (size_t i = 0; i < (2 + 5 * u) % 7; ++i) {
      const auto other = static_cast<int32_t>((3 * i * i + u) % (kEntries - 1));
      labels.back().push_back(other < blank ? other : other + 1);
    }
  }
  return labels;
}

TransducerPack pack_for(const std::vector<int64_t>& frames) {
  TransducerPack pack{.frames = frames, .labels = labels_for(frames, 10), .blank = 10};
  for (size_t u = 0; u < frames.size(); ++u)
    pack.weights.push_back(1.0f / static_cast<float>(1 + u));
  return pack;
}

// The loss of TDT, for every third utterance that of RNN-T, with dropout.
TransducerPack duration_pack_for(const std::vector<int64_t>& frames) {
  TransducerPack pack = pack_for(frames);
  pack.labels = labels_for(frames, 4);
  pack.blank = 4;
  pack.durations = {0, 1, 2, 3, 4};
  pack.sigma = 0.05;
  pack.dropout = {.key = {.seed = 5, .purpose = Purpose::kDropout, .step = 7, .layer = 2},
                  .probability = 0.3};
  for (size_t u = 0; u < frames.size(); ++u) pack.without_durations.push_back(u % 3 == 2 ? 1 : 0);
  return pack;
}

template <TransducerPack (*kMakePack)(const std::vector<int64_t>&)>
std::vector<Input> make_inputs(const Shape& s) {
  const TransducerPack pack = kMakePack(lengths_for(s.rows));
  int64_t num_predictions = 0;
  for (const int64_t length : pack.predictions()) num_predictions += length;
  const int64_t num_outputs = kEntries + std::ssize(pack.durations);
  // Logits far below 1, of which 16 bits say enough: their errors add up along an alignment.
  Input weight = data({num_outputs, s.width}, 3), bias = parameter({num_outputs}, 4);
  weight.values = weight.values * 0.25 / std::sqrt(static_cast<double>(s.width));
  bias.values = bias.values * 0.25;
  return {data({s.rows, s.width}, 1), data({num_predictions, s.width}, 2), weight, bias};
}

TransducerInputs inputs_of(const Tensors& in) {
  return {.encoder = in[0], .prediction = in[1], .weight = in[2], .bias = in[3]};
}

Tensors results_of(const TransducerResults& results, const at::Tensor& evaluated) {
  return {evaluated,           results.loss,     results.d_encoder, results.d_prediction,
          results.grad_weight, results.grad_bias};
}

template <TransducerPack (*kMakePack)(const std::vector<int64_t>&)>
Tensors run(const Tensors& in, const kernels::Packing& packing) {
  const TransducerPack pack = kMakePack(packing.lengths());
  const TransducerInputs inputs = inputs_of(in);
  const at::Tensor evaluated = evaluate_transducer(pack, inputs, 0);  // the smallest chunks
  return results_of(run_transducer(pack, inputs, 0), evaluated);
}

template <TransducerPack (*kMakePack)(const std::vector<int64_t>&)>
Tensors reference(const Tensors& in, const kernels::Packing& packing) {
  const TransducerResults results =
      transducer_reference(kMakePack(packing.lengths()), inputs_of(in));
  return results_of(results, results.loss);
}

}  // namespace

std::vector<KernelCase> transducer_kernel_cases() {
  return {
      {"Transducer", true, make_inputs<pack_for>, run<pack_for>, reference<pack_for>},
      {"TransducerDurations", true, make_inputs<duration_pack_for>, run<duration_pack_for>,
       reference<duration_pack_for>},
  };
}

}  // namespace sotto::test
