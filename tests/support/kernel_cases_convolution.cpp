// Rows of the kernel table: convolutions, and what wav2vec2 has before its blocks.
#include "sotto/kernels/convolution/convolution.h"
#include "sotto/kernels/convolution/depthwise_convolution.h"
#include "sotto/kernels/convolution/grouped_convolution.h"
#include "sotto/kernels/elementwise/frame_mask.h"
#include "sotto/kernels/norm/wave_norm.h"
#include "sotto/kernels/norm/weight_norm.h"
#include "support/convolution_reference.h"
#include "support/kernel_case_tools.h"

namespace sotto::test {

namespace {

using namespace sotto::kernels;  // NOLINT: the table names kernels on every line

// --- grouped convolution: inputs x, dy, weight; results y, dx, the weight's gradient twice over.
// Most utterances of the table end inside a block, and the shortest are shorter than the taps.

constexpr int64_t kTaps = 10;
constexpr GroupedConvolution::Options kBlocks{.block = 4};

// With vectors of a GPU and without, in one group and in several.
int64_t channels_for(int64_t width) {
  if (width % 16 == 0) return 16;
  return width % 3 == 0 ? 3 : width;
}

std::vector<Input> convolution_inputs(const Shape& s) {
  return {data({s.rows, s.width}, 1), data({s.rows, s.width}, 2),
          data({s.width, channels_for(s.width), kTaps}, 3)};
}
Tensors run_grouped_convolution(const Tensors& in, const Packing& packing) {
  at::Tensor grad_weight = float_zeros(in[2].sizes(), in[2]);
  at::Tensor y = GroupedConvolution::forward(in[0], in[2], packing, kBlocks);
  at::Tensor dx = GroupedConvolution::input_gradient(in[1], in[2], packing, kBlocks);
  for (int i = 0; i < 2; ++i)
    GroupedConvolution::accumulate(grad_weight, {.dy = in[1], .x = in[0]}, packing, kBlocks);
  return {y, dx, grad_weight};
}
Tensors reference_grouped_convolution(const Tensors& in, const Packing& packing) {
  const ConvolutionTruth truth =
      convolution_truth({.x = in[0], .dy = in[1], .weight = in[2]}, packing);
  return {truth.y, truth.dx, 2.0 * truth.grad_weight};
}

// --- depthwise convolution: inputs x, dy, weight, bias; results y with and without the bias, dx,
// the parameters' gradients twice over. The shortest utterances are shorter than the taps.

constexpr int64_t kDepthwiseTaps = 9;

std::vector<Input> depthwise_inputs(const Shape& s) {
  return {data({s.rows, s.width}, 1), data({s.rows, s.width}, 2),
          data({s.width, kDepthwiseTaps}, 3), parameter({s.width}, 4)};
}
Tensors run_depthwise_convolution(const Tensors& in, const Packing& packing) {
  at::Tensor grad_weight = float_zeros(in[2].sizes(), in[2]);
  at::Tensor grad_bias = float_zeros(in[3].sizes(), in[3]);
  at::Tensor y = DepthwiseConvolution::forward(in[0], {.weight = in[2], .bias = &in[3]}, packing);
  at::Tensor unbiased = DepthwiseConvolution::forward(in[0], {.weight = in[2]}, packing);
  at::Tensor dx = DepthwiseConvolution::input_gradient(in[1], in[2], packing);
  for (int i = 0; i < 2; ++i)
    DepthwiseConvolution::accumulate({.weight = grad_weight, .bias = &grad_bias},
                                     {.dy = in[1], .x = in[0]}, packing);
  return {y, unbiased, dx, grad_weight, grad_bias};
}
Tensors reference_depthwise_convolution(const Tensors& in, const Packing& packing) {
  const ConvolutionTruth truth =
      convolution_truth({.x = in[0], .dy = in[1], .weight = in[2].unsqueeze(1)}, packing);
  return {truth.y + in[3], truth.y, truth.dx, 2.0 * truth.grad_weight.squeeze(1),
          2.0 * in[1].sum(0)};
}

// --- weight norm: inputs v, dw, g; results w in the type of v and in fp32, |v|, and the gradients
// twice over

constexpr int64_t kInputChannels = 3;

std::vector<Input> weight_norm_inputs(const Shape& s) {
  return {data({s.rows, kInputChannels, s.width}, 1),
          parameter({s.rows, kInputChannels, s.width}, 2), parameter({s.width}, 3)};
}
Tensors run_weight_norm(const Tensors& in, const Packing&) {
  at::Tensor grad_v = float_zeros(in[0].sizes(), in[0]);
  at::Tensor grad_g = float_zeros(in[2].sizes(), in[2]);
  const WeightNorm::Result result = WeightNorm::forward(in[0], in[2], in[0].scalar_type());
  at::Tensor in_float = WeightNorm::forward(in[0], in[2], at::kFloat).w;
  for (int i = 0; i < 2; ++i) {
    WeightNorm::backward({.dw = in[1], .v = in[0], .g = in[2], .norm = result.norm},
                         {.v = grad_v, .g = grad_g});
  }
  return {result.w, in_float, result.norm, grad_v, grad_g};
}
Tensors reference_weight_norm(const Tensors& in, const Packing&) {
  const at::Tensor v = leaf(in[0]), g = leaf(in[2]);
  const at::Tensor norm = v.square().sum(0).sum(0).sqrt();
  const at::Tensor w = v * (g / norm);
  w.backward(in[1]);
  return {w.detach(), w.detach(), norm.detach(), 2.0 * v.grad(), 2.0 * g.grad()};
}

// --- strided convolution: inputs x, weight, bias, dy; results y, dx, the weight's gradient

constexpr int64_t kOutputs = 6;
constexpr Convolution::Options kStrided{.size = 3, .stride = 2};

std::vector<Input> strided_inputs(const Shape& s) {
  const int64_t frames = s.rows + 2;
  return {data({frames, s.width}, 1), data({kOutputs, kStrided.size * s.width}, 2),
          parameter({kOutputs}, 3),
          data({Convolution::num_results(frames, kStrided), kOutputs}, 4)};
}
Tensors run_convolution(const Tensors& in, const Packing&) {
  at::Tensor grad_weight = float_zeros(in[1].sizes(), in[1]);
  at::Tensor y = Convolution::forward(in[0], in[1], &in[2], kStrided);
  at::Tensor dx = Convolution::input_gradient(in[3], in[1], in[0].size(0), kStrided);
  Convolution::accumulate(grad_weight, in[3], in[0], kStrided);
  return {y, dx, grad_weight};
}
Tensors reference_convolution(const Tensors& in, const Packing&) {
  const at::Tensor x = leaf(in[0]), weight = leaf(in[1]);
  const at::Tensor taps = weight.view({kOutputs, kStrided.size, -1}).transpose(1, 2);
  const at::Tensor y = at::conv1d(x.t().unsqueeze(0), taps, in[2], kStrided.stride).squeeze(0).t();
  y.backward(in[3]);
  return {y.detach(), x.grad(), weight.grad()};
}

// --- norm of the waveform's convolution: inputs samples, weight, gamma, beta, and the gradients of
// the folded weight and bias; twelve samples a frame of the pack

constexpr WaveNorm::Options kWave{.size = 4, .stride = 2};
constexpr int64_t kSamplesAFrame = 12;

Packing samples_of(const Packing& packing, const at::Device& device) {
  std::vector<int64_t> lengths;
  for (const int64_t frames : packing.lengths()) lengths.push_back(kSamplesAFrame * frames);
  return {lengths, device, packing.keys()};
}
std::vector<Input> wave_inputs(const Shape& s) {
  const int64_t utterances = std::ssize(lengths_for(s.rows));
  return {parameter({kSamplesAFrame * s.rows}, 1),
          data({kOutputs, kWave.size}, 2),
          parameter({kOutputs}, 3),
          parameter({kOutputs}, 4),
          parameter({utterances, kOutputs, kWave.size}, 5),
          parameter({utterances, kOutputs}, 6)};
}
Tensors run_wave_norm(const Tensors& in, const Packing& packing) {
  const WaveNorm::Parameters parameters{.weight = in[1], .gamma = in[2], .beta = in[3]};
  const at::Tensor statistics =
      WaveNorm::statistics(in[0], samples_of(packing, in[0].device()), kWave);
  const WaveNorm::Folded folded = WaveNorm::fold(statistics, parameters, kWave);
  at::Tensor d_weight = float_zeros(in[1].sizes(), in[1]);
  at::Tensor d_gamma = float_zeros(in[2].sizes(), in[2]);
  at::Tensor d_beta = float_zeros(in[3].sizes(), in[3]);
  WaveNorm::backward({.weight = in[4], .bias = in[5]}, statistics, parameters,
                     {.weight = d_weight, .gamma = d_gamma, .beta = d_beta}, kWave);
  return {folded.weight, folded.bias, d_weight, d_gamma, d_beta};
}
Tensors reference_wave_norm(const Tensors& in, const Packing& packing) {
  const Packing samples = samples_of(packing, at::kCPU);
  const at::Tensor weight = leaf(in[1]), gamma = leaf(in[2]), beta = leaf(in[3]);
  Tensors weights, biases;
  for (int64_t u = 0; u < samples.num_utterances(); ++u) {
    const auto index = static_cast<size_t>(u);
    const at::Tensor windows = in[0]
                                   .narrow(0, samples.starts()[index], samples.lengths()[index])
                                   .unfold(0, kWave.size, kWave.stride);
    const at::Tensor results = at::matmul(windows, weight.t());
    const at::Tensor mean = results.mean(0);
    const at::Tensor scale = gamma / ((results - mean).square().mean(0) + kWave.epsilon).sqrt();
    weights.push_back(weight * scale.unsqueeze(1));
    biases.push_back(beta - mean * scale);
  }
  const at::Tensor folded_weight = at::stack(weights), folded_bias = at::stack(biases);
  ((folded_weight * in[4]).sum() + (folded_bias * in[5]).sum()).backward();
  return {folded_weight.detach(), folded_bias.detach(), weight.grad(), gamma.grad(), beta.grad()};
}

// --- hidden frames and features: inputs x, the value, dy; every third row and the features that
// divide by 4 in every second utterance

std::vector<Input> mask_inputs(const Shape& s) {
  return {data({s.rows, s.width}, 1), parameter({s.width}, 2), data({s.rows, s.width}, 3)};
}
// Copied from vectors: what the tests count is the kernel's.
at::Tensor hidden_rows(const at::Tensor& like) {
  std::vector<int32_t> rows;
  for (int64_t row = 0; row < like.size(0); row += 3) rows.push_back(static_cast<int32_t>(row));
  at::Tensor result = at::empty({std::ssize(rows)}, like.options().dtype(at::kInt));
  if (!result.is_meta()) result.copy_(at::from_blob(rows.data(), {std::ssize(rows)}, at::kInt));
  return result;
}
at::Tensor hidden_features(const Packing& packing, const at::Tensor& like) {
  const int64_t width = like.size(1);
  std::vector<uint8_t> hidden(static_cast<size_t>(packing.num_utterances() * width), 0);
  for (int64_t u = 0; u < packing.num_utterances(); u += 2)
    for (int64_t i = 0; i < width; i += 4) hidden[static_cast<size_t>(u * width + i)] = 1;
  at::Tensor result = at::empty({packing.num_utterances(), width}, like.options().dtype(at::kByte));
  if (!result.is_meta()) result.copy_(at::from_blob(hidden.data(), result.sizes(), at::kByte));
  return result;
}
Tensors run_frame_mask(const Tensors& in, const Packing& packing) {
  at::Tensor x = copy_of(in[0]), dy = copy_of(in[2]);
  at::Tensor d_value = float_zeros(in[1].sizes(), in[1]);
  const at::Tensor rows = hidden_rows(x), features = hidden_features(packing, x);
  FrameMask::fill_rows(x, rows, in[1]);
  FrameMask::zero_columns(x, packing, features);
  FrameMask::zero_columns(dy, packing, features);
  FrameMask::accumulate(d_value, dy, rows);
  FrameMask::zero_rows(dy, rows);
  return {x, dy, d_value};
}
Tensors reference_frame_mask(const Tensors& in, const Packing& packing) {
  const at::Tensor x = leaf(in[0]), value = leaf(in[1]);
  const at::Tensor rows = hidden_rows(in[0]).to(at::kLong);
  at::Tensor seen = at::ones_like(in[0]);
  const at::Tensor features = hidden_features(packing, in[0]).to(at::kDouble);
  for (int64_t row = 0; row < seen.size(0); ++row)
    seen[row] = 1.0 - features[packing.utterance_of(row)];
  const at::Tensor y = x.index_put({rows}, value) * seen;
  y.backward(in[2]);
  return {y.detach(), x.grad(), value.grad()};
}

}  // namespace

std::vector<KernelCase> convolution_kernel_cases() {
  return {
      {"Convolution", true, strided_inputs, run_convolution, reference_convolution},
      {"WaveNorm", true, wave_inputs, run_wave_norm, reference_wave_norm},
      {"FrameMask", true, mask_inputs, run_frame_mask, reference_frame_mask},
      {"GroupedConvolution", true, convolution_inputs, run_grouped_convolution,
       reference_grouped_convolution},
      {"DepthwiseConvolution", true, depthwise_inputs, run_depthwise_convolution,
       reference_depthwise_convolution},
      {"WeightNorm", true, weight_norm_inputs, run_weight_norm, reference_weight_norm},
  };
}

}  // namespace sotto::test
