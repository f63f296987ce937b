#include "support/kernel_cases.h"

#include "sotto/kernels/base/dropout_mask.h"
#include "sotto/kernels/elementwise/activation.h"
#include "sotto/kernels/elementwise/column_sum.h"
#include "sotto/kernels/elementwise/dropout.h"
#include "sotto/kernels/elementwise/embedding.h"
#include "sotto/kernels/elementwise/glu.h"
#include "sotto/kernels/elementwise/residual_add.h"
#include "sotto/kernels/norm/batch_norm.h"
#include "sotto/kernels/norm/group_norm.h"
#include "sotto/kernels/norm/layer_norm.h"
#include "sotto/kernels/norm/rms_norm.h"
#include "sotto/kernels/product/gemm.h"
#include "support/kernel_case_tools.h"

namespace sotto::test {

namespace {

using namespace sotto::kernels;  // NOLINT: the table names kernels on every line

std::vector<Input> two_rows(const Shape& s) {
  return {data({s.rows, s.width}, 1), data({s.rows, s.width}, 2)};
}

// --- dropout: what each element is multiplied by, from the rule itself

constexpr double kDropped = 0.3;
const RandomKey kDropoutKey{.seed = 5, .purpose = Purpose::kDropout, .step = 7, .layer = 2};
const Dropout::Mask kMask{.key = kDropoutKey, .probability = kDropped};
// Masks for half a step, with dropout and without it.
const Dropout::Mask kHalfMask{.key = kDropoutKey, .probability = kDropped, .scale = 0.5};
const Dropout::Mask kHalf{.key = kDropoutKey, .scale = 0.5};

at::Tensor dropout_factors(const at::Tensor& x, const Packing& packing) {
  at::Tensor factors = at::empty_like(x);
  const uint32_t threshold = dropout_threshold(kDropped);
  for (int64_t row = 0; row < x.size(0); ++row) {
    const auto u = static_cast<size_t>(packing.utterance_of(row));
    for (int64_t column = 0; column < x.size(1); ++column) {
      const int64_t element = (row - packing.starts()[u]) * x.size(1) + column;
      const PhiloxCounter bits = dropout_bits(static_cast<uint64_t>(element / 8),
                                              fold(packing.keys()[u]), fold(kDropoutKey));
      factors[row][column] =
          dropout_keeps(bits, element % 8, threshold) ? dropout_scale(threshold) : 0.0;
    }
  }
  return factors;
}

Tensors run_dropout(const Tensors& in, const Packing& packing) {
  at::Tensor y = copy_of(in[0]);
  Dropout::apply(y, packing, kMask);
  at::Tensor dx = Dropout::applied(in[1], packing, kMask);
  return {y, dx, Dropout::applied(in[1], packing, kHalfMask)};
}
Tensors reference_dropout(const Tensors& in, const Packing& packing) {
  const at::Tensor factors = dropout_factors(in[0], packing);
  return {in[0] * factors, in[1] * factors, 0.5 * in[1] * factors};
}

// --- activations: inputs x, dy; results y, dx, and both once more with dropout

template <class Kernel>
Tensors run_activation(const Tensors& in, const Packing& packing) {
  const Dropped dropped{.packing = packing, .mask = kMask};
  at::Tensor gradient = copy_of(in[1]), dropped_gradient = copy_of(in[1]);
  at::Tensor y = Kernel::forward(in[0]);
  Kernel::backward(gradient, in[0]);
  at::Tensor dropped_y = Kernel::forward(in[0], &dropped);
  Kernel::backward(dropped_gradient, in[0], &dropped);
  return {y, gradient, dropped_y, dropped_gradient};
}

template <class Function>
Tensors reference_unary(const Tensors& in, Function function) {
  const at::Tensor x = leaf(in[0]);
  const at::Tensor y = function(x);
  y.backward(in[1]);
  return {y.detach(), x.grad()};
}

template <class Function>
Tensors reference_activation(const Tensors& in, const Packing& packing, Function function) {
  Tensors results = reference_unary(in, function);
  const at::Tensor factors = dropout_factors(in[0], packing);
  return {results[0], results[1], results[0] * factors, results[1] * factors};
}

Tensors reference_gelu(const Tensors& in, const Packing& packing) {
  return reference_activation(in, packing, [](const at::Tensor& x) { return at::gelu(x); });
}
Tensors reference_relu(const Tensors& in, const Packing& packing) {
  return reference_activation(in, packing, [](const at::Tensor& x) { return at::relu(x); });
}
Tensors reference_silu(const Tensors& in, const Packing& packing) {
  return reference_activation(in, packing, [](const at::Tensor& x) { return at::silu(x); });
}

// --- glu and softmax

std::vector<Input> glu_inputs(const Shape& s) {
  return {data({s.rows, 2 * s.width}, 1), data({s.rows, s.width}, 2)};
}
Tensors run_glu(const Tensors& in, const Packing&) {
  return {Glu::forward(in[0]), Glu::backward(in[1], in[0])};
}
Tensors reference_glu(const Tensors& in, const Packing&) {
  return reference_unary(in, [](const at::Tensor& x) { return at::glu(x, 1); });
}

// --- norms: inputs x, dy, gamma, beta; results y, dx, dx with x as a gradient that goes around,
// and the parameters' gradients of both

std::vector<Input> norm_inputs(const Shape& s) {
  // An offset shows what a one-pass variance would lose.
  Input x = data({s.rows, s.width}, 1);
  x.values = x.values + 3.0;
  return {x, data({s.rows, s.width}, 2), parameter({s.width}, 3), parameter({s.width}, 4)};
}

Tensors run_layer_norm(const Tensors& in, const Packing&) {
  at::Tensor grad_gamma = float_zeros({in[0].size(1)}, in[0]);
  at::Tensor grad_beta = float_zeros({in[0].size(1)}, in[0]);
  const LayerNorm::Result result = LayerNorm::forward(in[0], {.gamma = in[2], .beta = in[3]});
  const auto backward = [&](const at::Tensor* residual) {
    return LayerNorm::backward({.dy = in[1],
                                .x = in[0],
                                .mean = result.mean,
                                .rstd = result.rstd,
                                .gamma = in[2],
                                .residual = residual},
                               {.gamma = grad_gamma, .beta = grad_beta});
  };
  at::Tensor dx = backward(nullptr);
  return {result.y, dx, backward(in.data()), grad_gamma, grad_beta};
}
Tensors reference_layer_norm(const Tensors& in, const Packing&) {
  const at::Tensor x = leaf(in[0]), gamma = leaf(in[2]), beta = leaf(in[3]);
  const at::Tensor y = at::layer_norm(x, {x.size(1)}, gamma, beta, 1e-5);
  y.backward(in[1]);
  return {y.detach(), x.grad(), x.grad() + in[0], 2.0 * gamma.grad(), 2.0 * beta.grad()};
}

Tensors run_rms_norm(const Tensors& in, const Packing&) {
  at::Tensor grad_gamma = float_zeros({in[0].size(1)}, in[0]);
  const RmsNorm::Result result = RmsNorm::forward(in[0], in[2]);
  const auto backward = [&](const at::Tensor* residual) {
    return RmsNorm::backward(
        {.dy = in[1], .x = in[0], .rstd = result.rstd, .gamma = in[2], .residual = residual},
        grad_gamma);
  };
  at::Tensor dx = backward(nullptr);
  return {result.y, dx, backward(in.data()), grad_gamma};
}
Tensors reference_rms_norm(const Tensors& in, const Packing&) {
  const at::Tensor x = leaf(in[0]), gamma = leaf(in[2]);
  const at::Tensor y = x * at::rsqrt(x.pow(2).mean(1, /*keepdim=*/true) + 1e-6) * gamma;
  y.backward(in[1]);
  return {y.detach(), x.grad(), x.grad() + in[0], 2.0 * gamma.grad()};
}

// At least three channels a group: one channel of one frame has no variance, only noise.
int64_t groups_for(int64_t width) {
  if (width % 4 == 0) return width / 4;
  return width % 3 == 0 ? width / 3 : 1;
}

Tensors run_group_norm(const Tensors& in, const Packing& packing) {
  at::Tensor grad_gamma = float_zeros({in[0].size(1)}, in[0]);
  at::Tensor grad_beta = float_zeros({in[0].size(1)}, in[0]);
  const GroupNorm::Result result = GroupNorm::forward(
      in[0], packing, {.gamma = in[2], .beta = in[3], .num_groups = groups_for(in[0].size(1))});
  at::Tensor dx = GroupNorm::backward(
      {.dy = in[1], .x = in[0], .mean = result.mean, .rstd = result.rstd, .gamma = in[2]}, packing,
      {.gamma = grad_gamma, .beta = grad_beta});
  return {result.y, dx, grad_gamma, grad_beta};
}
Tensors reference_group_norm(const Tensors& in, const Packing& packing) {
  const at::Tensor x = leaf(in[0]), gamma = leaf(in[2]), beta = leaf(in[3]);
  Tensors parts;
  for (const at::Tensor& utterance : x.split_with_sizes(packing.lengths())) {
    const at::Tensor channels_first = utterance.t().unsqueeze(0);  // [1, D, T]
    const at::Tensor y = at::group_norm(channels_first, groups_for(x.size(1)), gamma, beta, 1e-5);
    parts.push_back(y.squeeze(0).t());
  }
  const at::Tensor y = at::cat(parts);
  y.backward(in[1]);
  return {y.detach(), x.grad(), gamma.grad(), beta.grad()};
}

// Results y, dx and the parameters' gradients; the same with constants instead; and the running
// averages after a step of two batches, x and dy.
Tensors run_batch_norm(const Tensors& in, const Packing&) {
  const int64_t width = in[0].size(1);
  at::Tensor mean = copy_of(in[4]), variance = copy_of(in[5]);
  BatchNorm::Stage stage{.mean = float_zeros({width}, in[0]),
                         .variance = float_zeros({width}, in[0])};
  Tensors results;
  const auto add = [&](const BatchNorm::Statistics& statistics, BatchNorm::Kind kind) {
    at::Tensor grad_gamma = float_zeros({width}, in[0]);
    at::Tensor grad_beta = float_zeros({width}, in[0]);
    at::Tensor y =
        BatchNorm::forward(in[0], statistics, {.gamma = in[2], .beta = in[3], .epsilon = 0.1});
    at::Tensor dx = BatchNorm::backward(
        {.dy = in[1], .x = in[0], .statistics = statistics, .gamma = in[2], .epsilon = 0.1},
        {.gamma = grad_gamma, .beta = grad_beta}, kind);
    results.insert(results.end(), {y, dx, grad_gamma, grad_beta});
  };
  add(BatchNorm::statistics(in[0], &stage), BatchNorm::Kind::kBatch);
  add({.mean = in[4], .variance = in[5]}, BatchNorm::Kind::kConstant);
  BatchNorm::statistics(in[1], &stage);
  BatchNorm::commit(stage, {.mean = mean, .variance = variance});
  results.insert(results.end(), {mean, variance});
  return results;
}
Tensors reference_batch_norm(const Tensors& in, const Packing&) {
  Tensors results;
  for (const bool is_training : {true, false}) {
    const at::Tensor x = leaf(in[0]), gamma = leaf(in[2]), beta = leaf(in[3]);
    at::Tensor used_mean = in[4].clone(), used_variance = in[5].clone();
    const at::Tensor y =
        at::batch_norm(x, gamma, beta, used_mean, used_variance, is_training, 0.1, 0.1, false);
    y.backward(in[1]);
    results.insert(results.end(), {y.detach(), x.grad(), gamma.grad(), beta.grad()});
  }
  const at::Tensor step = at::cat({in[0], in[1]});
  results.push_back(0.9 * in[4] + 0.1 * step.mean(0));
  results.push_back(0.9 * in[5] + 0.1 * step.var(0, /*unbiased=*/true));
  return results;
}

std::vector<Input> batch_norm_inputs(const Shape& s) {
  std::vector<Input> inputs = norm_inputs(s);
  inputs.push_back(parameter({s.width}, 5));
  inputs.push_back(parameter({s.width}, 6));
  inputs.back().values = inputs.back().values.square() + 0.5;
  return inputs;
}

// --- residual: without dropout, with it, with one that drops nothing, half steps; column sum

Tensors run_residual_add(const Tensors& in, const Packing& packing) {
  at::Tensor y = copy_of(in[0]), dropped = copy_of(in[0]), plain = copy_of(in[0]);
  at::Tensor half = copy_of(in[0]), half_dropped = copy_of(in[0]);
  ResidualAdd::accumulate(y, in[1]);
  ResidualAdd::accumulate_dropped(dropped, in[1], packing, kMask);
  ResidualAdd::accumulate_dropped(plain, in[1], packing, {.key = kDropoutKey, .probability = 0.0});
  ResidualAdd::accumulate_dropped(half, in[1], packing, kHalf);
  ResidualAdd::accumulate_dropped(half_dropped, in[1], packing, kHalfMask);
  return {y, dropped, plain, half, half_dropped};
}
Tensors reference_residual_add(const Tensors& in, const Packing& packing) {
  const at::Tensor sum = in[0] + in[1];
  const at::Tensor dropped = in[0] * dropout_factors(in[0], packing);
  return {sum, dropped + in[1], sum, 0.5 * in[0] + in[1], 0.5 * dropped + in[1]};
}

Tensors run_column_sum(const Tensors& in, const Packing&) {
  at::Tensor sum = float_zeros({in[0].size(1)}, in[0]);
  ColumnSum::accumulate(sum, in[0]);
  ColumnSum::accumulate(sum, in[1]);
  return {sum};
}
Tensors reference_column_sum(const Tensors& in, const Packing&) {
  return {in[0].sum(0) + in[1].sum(0)};
}

// --- embedding: inputs ids, table, dy

constexpr int64_t kEntries = 11;

std::vector<Input> embedding_inputs(const Shape& s) {
  at::Tensor ids = at::empty({s.rows}, at::kInt);
  for (int64_t i = 0; i < s.rows; ++i) ids[i] = static_cast<int32_t>(i * i % kEntries);
  return {{Input::Kind::kIndex, ids}, data({kEntries, s.width}, 1), data({s.rows, s.width}, 2)};
}
Tensors run_embedding(const Tensors& in, const Packing&) {
  at::Tensor y = Embedding::forward(in[0], in[1]);
  at::Tensor grad_table = float_zeros(in[1].sizes(), in[1]);
  Embedding::backward(in[2], in[0], grad_table);
  return {y, grad_table};
}
Tensors reference_embedding(const Tensors& in, const Packing&) {
  const at::Tensor table = leaf(in[1]);
  const at::Tensor y = table.index_select(0, in[0].to(at::kLong));
  y.backward(in[2]);
  return {y.detach(), table.grad()};
}

// --- Gemm as a linear layer: x, weight, bias, dy; results y, y in fp32, dx, the weight's gradient
// twice over

constexpr int64_t kOutputs = 24;

std::vector<Input> gemm_inputs(const Shape& s) {
  return {data({s.rows, s.width}, 1), data({kOutputs, s.width}, 2), parameter({kOutputs}, 3),
          data({s.rows, kOutputs}, 4)};
}
Tensors run_gemm(const Tensors& in, const Packing&) {
  const at::Tensor &x = in[0], &weight = in[1], &bias = in[2], &dy = in[3];
  at::Tensor y = Gemm::multiply({.a = x, .b = weight, .transpose_b = true, .bias = &bias});
  at::Tensor y_float =
      Gemm::multiply_to_float({.a = x, .b = weight, .transpose_b = true, .bias = &bias});
  at::Tensor dx = Gemm::multiply({.a = dy, .b = weight});
  at::Tensor grad_weight = float_zeros(weight.sizes(), x);
  Gemm::accumulate(grad_weight, {.a = dy, .b = x, .transpose_a = true});
  Gemm::accumulate(grad_weight, {.a = dy, .b = x, .transpose_a = true});
  at::Tensor same_type = zeros({x.size(1), kOutputs}, x, x.scalar_type());
  Gemm::accumulate(same_type, {.a = x, .b = dy, .transpose_a = true});
  return {y, y_float, dx, grad_weight, same_type};
}
Tensors reference_gemm(const Tensors& in, const Packing&) {
  const at::Tensor x = leaf(in[0]), weight = leaf(in[1]);
  const at::Tensor y = at::addmm(in[2], x, weight.t());
  y.backward(in[3]);
  return {y.detach(), y.detach(), x.grad(), 2.0 * weight.grad(), weight.grad().t()};
}

std::vector<KernelCase> row_kernel_cases() {
  return {
      {"Gemm", true, gemm_inputs, run_gemm, reference_gemm},
      {"LayerNorm", true, norm_inputs, run_layer_norm, reference_layer_norm},
      {"RmsNorm", true, norm_inputs, run_rms_norm, reference_rms_norm},
      {"BatchNorm", true, batch_norm_inputs, run_batch_norm, reference_batch_norm},
      {"GroupNorm", true, norm_inputs, run_group_norm, reference_group_norm},
      {"Gelu", true, two_rows, run_activation<Gelu>, reference_gelu},
      {"Relu", true, two_rows, run_activation<Relu>, reference_relu},
      {"Silu", true, two_rows, run_activation<Silu>, reference_silu},
      {"Glu", true, glu_inputs, run_glu, reference_glu},
      {"Dropout", true, two_rows, run_dropout, reference_dropout},
      {"ResidualAdd", true, two_rows, run_residual_add, reference_residual_add},
      {"ColumnSum", true, two_rows, run_column_sum, reference_column_sum},
      {"Embedding", true, embedding_inputs, run_embedding, reference_embedding},
  };
}

}  // namespace

const std::vector<KernelCase>& kernel_cases() {
  static const std::vector<KernelCase> cases = [] {
    std::vector<KernelCase> all = row_kernel_cases();
    for (const KernelCase& row : flat_kernel_cases()) all.push_back(row);
    for (const KernelCase& row : pack_kernel_cases()) all.push_back(row);
    for (const KernelCase& row : convolution_kernel_cases()) all.push_back(row);
    for (const KernelCase& row : image_kernel_cases()) all.push_back(row);
    for (const KernelCase& row : recurrent_kernel_cases()) all.push_back(row);
    for (const KernelCase& row : feature_kernel_cases()) all.push_back(row);
    for (const KernelCase& row : transducer_kernel_cases()) all.push_back(row);
    return all;
  }();
  return cases;
}

std::vector<KernelCase> cuda_kernel_cases() {
  std::vector<KernelCase> cases;
  for (const KernelCase& row : kernel_cases()) {
    if (row.has_cuda) cases.push_back(row);
  }
  return cases;
}

const std::vector<Shape>& kernel_shapes() {
  static const std::vector<Shape> shapes = {{1, 3}, {5, 7}, {37, 64}, {300, 80}, {1030, 33}};
  return shapes;
}

std::vector<int64_t> lengths_for(int64_t rows) {
  std::vector<int64_t> lengths;
  for (int64_t rest = rows; rest > 0; rest -= lengths.back()) lengths.push_back((rest + 2) / 3);
  return lengths;
}

Tensors materialise(const std::vector<Input>& inputs, at::ScalarType type,
                    const at::Device& device) {
  Tensors result;
  for (const Input& input : inputs) {
    at::ScalarType as = input.kind == Input::Kind::kData ? type : at::kFloat;
    if (input.kind == Input::Kind::kIndex) as = at::kInt;
    result.push_back(at::empty(input.values.sizes(), at::TensorOptions().dtype(as).device(device)));
    if (!device.is_meta()) result.back().copy_(input.values);
  }
  return result;
}

Tensors materialise_reference(const std::vector<Input>& inputs, at::ScalarType type) {
  Tensors result = materialise(inputs, type, at::kCPU);
  for (at::Tensor& tensor : result) {
    if (tensor.scalar_type() != at::kInt) tensor = tensor.to(at::kDouble);
  }
  return result;
}

}  // namespace sotto::test
