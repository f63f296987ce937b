// Rows of the kernel table: the convolution of positions and the norm of its weights.
#include "sotto/kernels/grouped_convolution.h"
#include "sotto/kernels/weight_norm.h"
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

}  // namespace

std::vector<KernelCase> convolution_kernel_cases() {
  return {
      {"GroupedConvolution", true, convolution_inputs, run_grouped_convolution,
       reference_grouped_convolution},
      {"WeightNorm", true, weight_norm_inputs, run_weight_norm, reference_weight_norm},
  };
}

}  // namespace sotto::test
