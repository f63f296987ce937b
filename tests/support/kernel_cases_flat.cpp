// Rows of the kernel table: the kernels that know neither rows nor utterances.
#include <algorithm>
#include <array>
#include <cmath>

#include "sotto/kernels/elementwise/cast.h"
#include "sotto/kernels/optimizer/adamw.h"
#include "sotto/kernels/optimizer/square_sum.h"
#include "sotto/kernels/simd/split_float.h"
#include "support/kernel_case_tools.h"

namespace sotto::test {

namespace {

using namespace sotto::kernels;  // NOLINT: the table names kernels on every line

// --- optimizer: inputs weights, gradients and moments, all flat and fp32

const AdamW::Coefficients kAdamW{.rate = 0.05,
                                 .beta1 = 0.8,
                                 .beta2 = 0.95,
                                 .epsilon = 1e-3,
                                 .weight_decay = 0.1,
                                 .step = 3,
                                 .gradient_scale = 0.7,
                                 .clip_norm = 12.0};  // some of the shapes are above it

std::vector<Input> adamw_inputs(const Shape& s) {
  const int64_t n = s.rows * s.width;
  Input second_moment = parameter({n}, 4);
  second_moment.values = second_moment.values.square();
  return {parameter({n}, 1), parameter({n}, 2), parameter({n}, 3), second_moment};
}
at::Tensor square_sum_of(const at::Tensor& values) {
  at::Tensor sum = zeros({1}, values, at::kDouble);
  SquareSum::accumulate(sum, values);
  return sum;
}
Tensors run_adamw(const Tensors& in, const Packing&) {
  at::Tensor weights = copy_of(in[0]), first = copy_of(in[2]), second = copy_of(in[3]);
  AdamW::update(
      {.weights = weights, .gradients = in[1], .first_moment = first, .second_moment = second},
      kAdamW, square_sum_of(in[1]));
  return {weights, first, second};
}
Tensors reference_adamw(const Tensors& in, const Packing&) {
  const auto& c = kAdamW;
  const double norm = in[1].norm().item<double>() * c.gradient_scale;
  const at::Tensor g = in[1] * c.gradient_scale * std::min(1.0, c.clip_norm / norm);
  const at::Tensor first = c.beta1 * in[2] + (1 - c.beta1) * g;
  const at::Tensor second = c.beta2 * in[3] + (1 - c.beta2) * g * g;
  const double bias1 = 1 - std::pow(c.beta1, c.step), bias2 = 1 - std::pow(c.beta2, c.step);
  const at::Tensor denominator = (second / bias2).sqrt() + c.epsilon;
  const at::Tensor weights =
      in[0] * (1 - c.rate * c.weight_decay) - c.rate * (first / bias1) / denominator;
  return {weights, first, second};
}

// The same from weights in bf16, as the fp32 numbers that they are with their remainder.
at::Tensor joined(const at::Tensor& weights, const at::Tensor& remainder) {
  at::Tensor whole = float_zeros(weights.sizes(), weights);
  if (whole.is_meta()) return whole;
  const at::Tensor high = weights.cpu(), low = remainder.cpu(), on_host = whole.cpu();
  for (int64_t i = 0; i < whole.numel(); ++i) {
    on_host.data_ptr<float>()[i] =
        join_float({.high = high.data_ptr<at::BFloat16>()[i].x, .low = low.data_ptr<int16_t>()[i]});
  }
  return whole.copy_(on_host);
}
Tensors run_adamw_split(const Tensors& in, const Packing&) {
  at::Tensor weights = zeros(in[0].sizes(), in[0], at::kBFloat16);
  if (!weights.is_meta()) weights.copy_(in[0]);
  at::Tensor remainder = zeros(in[0].sizes(), in[0], at::kShort);
  at::Tensor first = copy_of(in[2]), second = copy_of(in[3]);
  AdamW::update({.weights = weights,
                 .remainder = &remainder,
                 .gradients = in[1],
                 .first_moment = first,
                 .second_moment = second},
                kAdamW, square_sum_of(in[1]));
  return {joined(weights, remainder), first, second};
}
Tensors reference_adamw_split(const Tensors& in, const Packing& packing) {
  const at::Tensor weights = in[0].to(at::kBFloat16).to(at::kDouble);
  return reference_adamw({weights, in[1], in[2], in[3]}, packing);
}

std::vector<Input> flat_inputs(const Shape& s) {
  return {parameter({s.rows * s.width}, 1), parameter({s.width}, 2)};
}
Tensors run_square_sum(const Tensors& in, const Packing&) {
  at::Tensor sum = square_sum_of(in[0]);
  SquareSum::accumulate(sum, in[1]);
  return {sum};
}
Tensors reference_square_sum(const Tensors& in, const Packing&) {
  return {(in[0].square().sum() + in[1].square().sum()).view({1})};
}

// --- casts: x in all types, its own among them

constexpr std::array kTypes = {at::kFloat, at::kBFloat16, at::kHalf};

std::vector<Input> one_input(const Shape& s) {
  return {data({s.rows, s.width}, 1)};
}
Tensors run_cast(const Tensors& in, const Packing&) {
  Tensors results;
  for (const at::ScalarType type : kTypes)
    results.push_back(type == in[0].scalar_type() ? in[0] : Cast::to(in[0], type));
  return results;
}
Tensors reference_cast(const Tensors& in, const Packing&) {
  Tensors results;
  for (const at::ScalarType type : kTypes)
    results.push_back(in[0].to(at::kFloat).to(type).to(at::kDouble));
  return results;
}

}  // namespace

std::vector<KernelCase> flat_kernel_cases() {
  return {
      {"AdamW", true, adamw_inputs, run_adamw, reference_adamw},
      {"AdamWSplit", true, adamw_inputs, run_adamw_split, reference_adamw_split},
      {"SquareSum", true, flat_inputs, run_square_sum, reference_square_sum},
      {"Cast", true, one_input, run_cast, reference_cast},
  };
}

}  // namespace sotto::test
