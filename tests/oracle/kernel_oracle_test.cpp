// Every kernel against PyTorch in double precision, by way of tests/fixtures/kernels.json, which
// make_kernels.py makes. Its inputs are exact in every type, so that the same truth holds for all.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "oracle/random_json.h"
#include "sotto/kernels/attention/attention.h"
#include "sotto/kernels/convolution/depthwise_convolution.h"
#include "sotto/kernels/convolution/frame_windows.h"
#include "sotto/kernels/convolution/grouped_convolution.h"
#include "sotto/kernels/convolution/image_depthwise.h"
#include "sotto/kernels/convolution/image_windows.h"
#include "sotto/kernels/elementwise/activation.h"
#include "sotto/kernels/elementwise/column_sum.h"
#include "sotto/kernels/elementwise/dropout.h"
#include "sotto/kernels/elementwise/embedding.h"
#include "sotto/kernels/elementwise/glu.h"
#include "sotto/kernels/elementwise/residual_add.h"
#include "sotto/kernels/loss/cross_entropy.h"
#include "sotto/kernels/loss/ctc.h"
#include "sotto/kernels/norm/batch_norm.h"
#include "sotto/kernels/norm/group_norm.h"
#include "sotto/kernels/norm/layer_norm.h"
#include "sotto/kernels/norm/rms_norm.h"
#include "sotto/kernels/norm/weight_norm.h"
#include "sotto/kernels/product/gemm.h"
#include "sotto/kernels/recurrent/lstm.h"
#include "support/fixture.h"
#include "support/tolerance.h"

namespace sotto::test {
namespace kernel_oracle_test {

using namespace sotto::kernels;  // NOLINT: the table names kernels on every line
using nlohmann::json;

// Results by their names in the fixture.
using Results = std::map<std::string, at::Tensor>;

// One case of the fixture, in the type under test.
class Case {
 public:
  Case(const json& values, at::ScalarType type) : values_(values), type_(type) {}

  // A fresh tensor each time: kernels may work in place.
  at::Tensor data(const char* name) const { return input(name, type_); }
  at::Tensor parameter(const char* name) const { return input(name, at::kFloat); }
  at::Tensor index(const char* name) const { return input(name, at::kInt); }

  template <class T>
  T option(const char* name) const {
    return values_.at(name).get<T>();
  }
  double epsilon() const { return option<double>("epsilon"); }

  Packing packing(std::vector<UtteranceKey> keys = {}) const {
    return Packing(option<std::vector<int64_t>>("lengths"), at::kCPU, std::move(keys));
  }

 private:
  at::Tensor input(const char* name, at::ScalarType type) const {
    return fixture_tensor(values_.at("inputs").at(name)).to(type);
  }

  const json& values_;
  at::ScalarType type_;
};

at::Tensor float_zeros_like(const at::Tensor& tensor) {
  return at::zeros(tensor.sizes(), at::kFloat);
}

Results run_gemm(const Case& in) {
  const at::Tensor x = in.data("x"), weight = in.data("weight"), dy = in.data("dy");
  const at::Tensor bias = in.parameter("bias");
  at::Tensor grad_weight = float_zeros_like(weight);
  Gemm::accumulate(grad_weight, {.a = dy, .b = x, .transpose_a = true});
  at::Tensor grad_bias = float_zeros_like(bias);
  ColumnSum::accumulate(grad_bias, dy);
  return {{"y", Gemm::multiply({.a = x, .b = weight, .transpose_b = true, .bias = &bias})},
          {"dx", Gemm::multiply({.a = dy, .b = weight})},
          {"grad_weight", grad_weight},
          {"grad_bias", grad_bias}};
}

Results run_layer_norm(const Case& in) {
  const at::Tensor x = in.data("x"), gamma = in.parameter("gamma"), beta = in.parameter("beta");
  at::Tensor grad_gamma = float_zeros_like(gamma), grad_beta = float_zeros_like(beta);
  const LayerNorm::Result result =
      LayerNorm::forward(x, {.gamma = gamma, .beta = beta, .epsilon = in.epsilon()});
  const at::Tensor dx = LayerNorm::backward(
      {.dy = in.data("dy"), .x = x, .mean = result.mean, .rstd = result.rstd, .gamma = gamma},
      {.gamma = grad_gamma, .beta = grad_beta});
  return {{"y", result.y}, {"mean", result.mean},      {"rstd", result.rstd},
          {"dx", dx},      {"grad_gamma", grad_gamma}, {"grad_beta", grad_beta}};
}

Results run_rms_norm(const Case& in) {
  const at::Tensor x = in.data("x"), gamma = in.parameter("gamma");
  at::Tensor grad_gamma = float_zeros_like(gamma);
  const RmsNorm::Result result = RmsNorm::forward(x, gamma, in.epsilon());
  const at::Tensor dx = RmsNorm::backward(
      {.dy = in.data("dy"), .x = x, .rstd = result.rstd, .gamma = gamma}, grad_gamma);
  return {{"y", result.y}, {"rstd", result.rstd}, {"dx", dx}, {"grad_gamma", grad_gamma}};
}

Results run_group_norm(const Case& in) {
  const Packing packing = in.packing();
  const at::Tensor x = in.data("x"), gamma = in.parameter("gamma"), beta = in.parameter("beta");
  at::Tensor grad_gamma = float_zeros_like(gamma), grad_beta = float_zeros_like(beta);
  const GroupNorm::Result result = GroupNorm::forward(x, packing,
                                                      {.gamma = gamma,
                                                       .beta = beta,
                                                       .num_groups = in.option<int64_t>("groups"),
                                                       .epsilon = in.epsilon()});
  const at::Tensor dx = GroupNorm::backward(
      {.dy = in.data("dy"), .x = x, .mean = result.mean, .rstd = result.rstd, .gamma = gamma},
      packing, {.gamma = grad_gamma, .beta = grad_beta});
  return {{"y", result.y}, {"mean", result.mean},      {"rstd", result.rstd},
          {"dx", dx},      {"grad_gamma", grad_gamma}, {"grad_beta", grad_beta}};
}

Results run_batch_norm(const Case& in) {
  const at::Tensor x = in.data("x"), gamma = in.parameter("gamma"), beta = in.parameter("beta");
  at::Tensor mean = in.parameter("mean"), variance = in.parameter("variance");
  Results results;
  const auto add = [&](const std::string& prefix, const BatchNorm::Statistics& statistics,
                       BatchNorm::Kind kind) {
    at::Tensor grad_gamma = float_zeros_like(gamma), grad_beta = float_zeros_like(beta);
    results[prefix + "y"] =
        BatchNorm::forward(x, statistics, {.gamma = gamma, .beta = beta, .epsilon = in.epsilon()});
    results[prefix + "dx"] = BatchNorm::backward({.dy = in.data("dy"),
                                                  .x = x,
                                                  .statistics = statistics,
                                                  .gamma = gamma,
                                                  .epsilon = in.epsilon()},
                                                 {.gamma = grad_gamma, .beta = grad_beta}, kind);
    results[prefix + "grad_gamma"] = grad_gamma;
    results[prefix + "grad_beta"] = grad_beta;
  };
  add("frozen_", {.mean = mean.clone(), .variance = variance.clone()}, BatchNorm::Kind::kConstant);
  BatchNorm::Stage stage{.mean = float_zeros_like(mean), .variance = float_zeros_like(mean)};
  add("", BatchNorm::statistics(x, &stage), BatchNorm::Kind::kBatch);
  BatchNorm::commit(stage, {.mean = mean, .variance = variance});
  results["running_mean"] = mean;
  results["running_variance"] = variance;
  return results;
}

template <class Activation>
Results run_activation(const Case& in) {
  const at::Tensor x = in.data("x");
  at::Tensor gradient = in.data("dy");
  Activation::backward(gradient, x);
  return {{"y", Activation::forward(x)}, {"dx", gradient}};
}

Results run_attention(const Case& in) {
  const Packing packing = in.packing();
  Attention::Options options{.num_heads = in.option<int64_t>("heads")};
  if (const auto left = in.option<int64_t>("left"); left >= 0) options.left = left;
  if (const auto right = in.option<int64_t>("right"); right >= 0) options.right = right;
  const at::Tensor qkv = in.data("qkv");
  const Attention::Result result = Attention::forward(qkv, packing, options);
  const at::Tensor dqkv = Attention::backward(
      {.dy = in.data("dy"), .qkv = qkv, .y = result.y, .softmax = result.softmax}, packing,
      options);
  return {{"y", result.y}, {"dqkv", dqkv}};
}

Results run_attention_relative(const Case& in) {
  const Packing packing = in.packing();
  const Attention::Options options{.num_heads = in.option<int64_t>("heads")};
  const at::Tensor qkv = in.data("qkv"), positions = in.data("positions");
  const at::Tensor content_bias = in.parameter("content_bias");
  const at::Tensor position_bias = in.parameter("position_bias");
  at::Tensor d_content = float_zeros_like(content_bias);
  at::Tensor d_position = float_zeros_like(position_bias);
  Attention::Relative::Gradients gradients{.content_bias = d_content, .position_bias = d_position};
  const Attention::Relative relative{.positions = positions,
                                     .content_bias = content_bias,
                                     .position_bias = position_bias,
                                     .gradients = &gradients};
  const Attention::Result result = Attention::forward(qkv, packing, options, &relative);
  const at::Tensor dqkv = Attention::backward(
      {.dy = in.data("dy"), .qkv = qkv, .y = result.y, .softmax = result.softmax}, packing, options,
      &relative);
  return {{"y", result.y},
          {"dqkv", dqkv},
          {"d_positions", gradients.positions},
          {"d_content_bias", d_content},
          {"d_position_bias", d_position}};
}

Results run_cross_attention(const Case& in) {
  const Packing queries(in.option<std::vector<int64_t>>("queries"), at::kCPU);
  const Packing keys = in.packing();
  const Attention::Packs packs{.queries = queries, .keys = keys};
  const Attention::Options options{.num_heads = in.option<int64_t>("heads")};
  const at::Tensor q = in.data("q"), kv = in.data("kv");
  const Attention::Result result = Attention::forward_cross({.q = q, .kv = kv}, packs, options);
  const Attention::CrossGradients gradients = Attention::backward_cross(
      {.dy = in.data("dy"), .q = q, .kv = kv, .y = result.y, .softmax = result.softmax}, packs,
      options);
  return {{"y", result.y}, {"dq", gradients.dq}, {"dkv", gradients.dkv}};
}

Results run_frame_windows(const Case& in) {
  const Packing packing = in.packing();
  const Packing windowed(FrameWindows::windowed_lengths(packing.lengths(), 2), at::kCPU);
  const FrameWindows::Packings packings{.from = packing, .to = windowed};
  const at::Tensor weight = in.data("weight"), dy = in.data("dy");
  const at::Tensor windows = FrameWindows::forward(in.data("x"), packings, {});
  at::Tensor grad_weight = float_zeros_like(weight);
  Gemm::accumulate(grad_weight, {.a = dy, .b = windows, .transpose_a = true});
  const at::Tensor d_windows = Gemm::multiply({.a = dy, .b = weight});
  return {{"y", Gemm::multiply({.a = windows, .b = weight, .transpose_b = true})},
          {"dx", FrameWindows::backward(d_windows, packings, {})},
          {"grad_weight", grad_weight}};
}

ImageShape image_shape(const Case& in) {
  const auto channels = in.option<int64_t>("channels");
  return {.bins = in.data("x").size(1) / channels, .channels = channels};
}

Results run_image_windows(const Case& in) {
  const Packing packing = in.packing();
  const Packing windowed(FrameWindows::windowed_lengths(packing.lengths(), 2), at::kCPU);
  const ImagePackings packings{.from = packing, .to = windowed};
  const ImageShape shape = image_shape(in);
  const at::Tensor weight = in.data("weight"), dy = in.data("dy");
  const at::Tensor windows = ImageWindows::forward(in.data("x"), packings, shape);
  at::Tensor grad_weight = float_zeros_like(weight);
  Gemm::accumulate(grad_weight, {.a = dy, .b = windows, .transpose_a = true});
  const at::Tensor d_windows = Gemm::multiply({.a = dy, .b = weight});
  return {{"y", Gemm::multiply({.a = windows, .b = weight, .transpose_b = true})},
          {"dx", ImageWindows::backward(d_windows, packings, shape)},
          {"grad_weight", grad_weight}};
}

Results run_image_depthwise(const Case& in) {
  const Packing packing = in.packing();
  const Packing windowed(FrameWindows::windowed_lengths(packing.lengths(), 2), at::kCPU);
  const ImagePackings packings{.from = packing, .to = windowed};
  const ImageShape shape = image_shape(in);
  const at::Tensor x = in.data("x"), weight = in.data("weight"), dy = in.data("dy");
  const at::Tensor bias = in.parameter("bias");
  at::Tensor grad_weight = float_zeros_like(weight), grad_bias = float_zeros_like(bias);
  ImageDepthwise::accumulate({.weight = grad_weight, .bias = grad_bias}, {.dy = dy, .x = x},
                             packings, shape);
  return {{"y", ImageDepthwise::forward(x, {.weight = weight, .bias = bias}, packings, shape)},
          {"dx", ImageDepthwise::input_gradient(dy, weight, packings, shape)},
          {"grad_weight", grad_weight},
          {"grad_bias", grad_bias}};
}

Results run_grouped_convolution(const Case& in) {
  const Packing packing = in.packing();
  const at::Tensor x = in.data("x"), weight = in.data("weight"), dy = in.data("dy");
  const GroupedConvolution::Options options{.block = 2};
  at::Tensor grad_weight = float_zeros_like(weight);
  GroupedConvolution::accumulate(grad_weight, {.dy = dy, .x = x}, packing, options);
  return {{"y", GroupedConvolution::forward(x, weight, packing, options)},
          {"dx", GroupedConvolution::input_gradient(dy, weight, packing, options)},
          {"grad_weight", grad_weight}};
}

Results run_depthwise_convolution(const Case& in) {
  const Packing packing = in.packing();
  const at::Tensor x = in.data("x"), weight = in.data("weight"), dy = in.data("dy");
  const at::Tensor bias = in.parameter("bias");
  at::Tensor grad_weight = float_zeros_like(weight), grad_bias = float_zeros_like(bias);
  DepthwiseConvolution::accumulate({.weight = grad_weight, .bias = &grad_bias}, {.dy = dy, .x = x},
                                   packing);
  return {{"y", DepthwiseConvolution::forward(x, {.weight = weight, .bias = &bias}, packing)},
          {"dx", DepthwiseConvolution::input_gradient(dy, weight, packing)},
          {"grad_weight", grad_weight},
          {"grad_bias", grad_bias}};
}

Results run_weight_norm(const Case& in) {
  const at::Tensor v = in.data("v"), g = in.parameter("g");
  const WeightNorm::Result result = WeightNorm::forward(v, g, v.scalar_type());
  at::Tensor grad_v = float_zeros_like(v), grad_g = float_zeros_like(g);
  WeightNorm::backward({.dw = in.parameter("dw"), .v = v, .g = g, .norm = result.norm},
                       {.v = grad_v, .g = grad_g});
  return {{"w", result.w}, {"norm", result.norm}, {"grad_v", grad_v}, {"grad_g", grad_g}};
}

Results run_glu(const Case& in) {
  const at::Tensor x = in.data("x");
  return {{"y", Glu::forward(x)}, {"dx", Glu::backward(in.data("dy"), x)}};
}

Results run_dropout(const Case& in) {
  std::vector<UtteranceKey> keys;
  for (const json& key : in.option<json>("utterances")) keys.push_back(utterance_key(key));
  const Packing packing = in.packing(keys);
  const Dropout::Mask mask{.key = random_key(in.option<json>("key")),
                           .probability = in.option<double>("probability")};
  Results results = {
      {"mask", at::ones_like(in.data("x"))}, {"y", in.data("x")}, {"dx", in.data("dy")}};
  for (auto& [name, tensor] : results) Dropout::apply(tensor, packing, mask);
  return results;
}

Results run_residual_add(const Case& in) {
  at::Tensor y = in.data("x");
  ResidualAdd::accumulate(y, in.data("residual"));
  return {{"y", y}};
}

Results run_column_sum(const Case& in) {
  const at::Tensor x = in.data("x");
  at::Tensor sum = at::zeros({x.size(1)}, at::kFloat);
  ColumnSum::accumulate(sum, x);
  return {{"sum", sum}};
}

Results run_embedding(const Case& in) {
  const at::Tensor ids = in.index("ids"), table = in.data("table");
  at::Tensor grad_table = float_zeros_like(table);
  Embedding::backward(in.data("dy"), ids, grad_table);
  return {{"y", Embedding::forward(ids, table)}, {"grad_table", grad_table}};
}

Results run_ctc(const Case& in) {
  const Packing packing = in.packing();
  const Labels labels(in.option<std::vector<std::vector<int32_t>>>("labels"), at::kCPU);
  at::Tensor gradient = in.data("logits");
  const Ctc::Result result = Ctc::forward(
      gradient, {.packing = packing, .labels = labels, .blank = in.option<int64_t>("blank")},
      in.option<std::vector<float>>("weights"));
  return {{"loss", result.loss}, {"gradient", gradient}};
}

Results run_cross_entropy(const Case& in) {
  const at::Tensor x = in.data("x"), weight = in.data("weight");
  const Packing packing = in.packing();
  const Labels targets(in.option<std::vector<std::vector<int32_t>>>("targets"), at::kCPU);
  at::Tensor grad_weight = float_zeros_like(weight);
  const CrossEntropy::Result result =
      CrossEntropy::forward({.x = x, .weight = weight, .packing = packing, .targets = targets},
                            in.option<std::vector<float>>("weights"), &grad_weight,
                            {.smoothing = in.option<double>("smoothing")});
  return {{"loss", result.loss}, {"dx", result.dx}, {"grad_weight", grad_weight}};
}

Results run_lstm(const Case& in) {
  const RecurrenceOrder order(in.packing());
  const at::Tensor x = in.data("x"), input = in.data("input_weight");
  const at::Tensor hidden = in.data("hidden_weight");
  const at::Tensor bias = in.parameter("input_bias"), hidden_bias = in.parameter("hidden_bias");
  at::Tensor grad_input = float_zeros_like(input), grad_hidden = float_zeros_like(hidden);
  at::Tensor grad_bias = float_zeros_like(bias), grad_hidden_bias = float_zeros_like(bias);
  const Lstm::Weights weights{
      .input = input, .hidden = hidden, .input_bias = bias, .hidden_bias = hidden_bias};
  const Lstm::Activations activations = Lstm::forward(x, weights, order);
  const at::Tensor y = Lstm::output(activations, order);
  const at::Tensor dx = Lstm::backward(
      {.dy = in.data("dy"), .x = x, .activations = activations, .weights = weights}, order,
      {.input = grad_input,
       .hidden = grad_hidden,
       .input_bias = grad_bias,
       .hidden_bias = grad_hidden_bias});
  return {{"y", y},
          {"dx", dx},
          {"grad_input_weight", grad_input},
          {"grad_hidden_weight", grad_hidden},
          {"grad_input_bias", grad_bias},
          {"grad_hidden_bias", grad_hidden_bias}};
}

using Run = Results (*)(const Case&);

const std::map<std::string, Run>& runs() {
  static const std::map<std::string, Run> table = {
      {"Gemm", run_gemm},
      {"LayerNorm", run_layer_norm},
      {"RmsNorm", run_rms_norm},
      {"GroupNorm", run_group_norm},
      {"BatchNorm", run_batch_norm},
      {"Gelu", run_activation<Gelu>},
      {"Relu", run_activation<Relu>},
      {"Silu", run_activation<Silu>},
      {"Glu", run_glu},
      {"Dropout", run_dropout},
      {"ResidualAdd", run_residual_add},
      {"ColumnSum", run_column_sum},
      {"Embedding", run_embedding},
      {"Attention", run_attention},
      {"AttentionRelative", run_attention_relative},
      {"CrossAttention", run_cross_attention},
      {"FrameWindows", run_frame_windows},
      {"ImageWindows", run_image_windows},
      {"ImageDepthwise", run_image_depthwise},
      {"GroupedConvolution", run_grouped_convolution},
      {"DepthwiseConvolution", run_depthwise_convolution},
      {"WeightNorm", run_weight_norm},
      {"Lstm", run_lstm},
      {"Ctc", run_ctc},
      {"CrossEntropy", run_cross_entropy},
  };
  return table;
}

class KernelOracle : public ::testing::TestWithParam<std::tuple<std::string, at::ScalarType>> {};

TEST_P(KernelOracle, AgreesWithPyTorch) {
  const auto& [kernel, type] = GetParam();
  const json fixture = read_fixture("kernels");
  const json& cases = fixture.at("kernels").at(kernel);
  ASSERT_GE(cases.size(), 3u);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Results ours = runs().at(kernel)(Case(cases[i], type));
    const json& truths = cases[i].at("results");
    EXPECT_EQ(ours.size(), truths.size()) << kernel << " case " << i;
    for (const auto& [name, tensor] : ours) {
      SCOPED_TRACE(kernel + "[" + std::to_string(i) + "]." + name);
      const at::Tensor truth = fixture_tensor(truths.at(name));
      ASSERT_EQ(tensor.sizes(), truth.sizes());
      EXPECT_LE(relative_error(tensor, truth), kernel_tolerance(type));
    }
  }
}

std::string name_of_case(const ::testing::TestParamInfo<KernelOracle::ParamType>& info) {
  return std::get<0>(info.param) + "_" + c10::toString(std::get<1>(info.param));
}

std::vector<std::string> kernels_run() {
  std::vector<std::string> names;
  for (const auto& [name, run] : runs()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Fixture, KernelOracle,
                         ::testing::Combine(::testing::ValuesIn(kernels_run()),
                                            ::testing::Values(at::kFloat, at::kBFloat16,
                                                              at::kHalf)),
                         name_of_case);

TEST(KernelOracleFixture, HasOnlyKernelsThatAreRun) {
  const json fixture = read_fixture("kernels");
  std::vector<std::string> in_fixture;
  for (const auto& [name, cases] : fixture.at("kernels").items()) in_fixture.push_back(name);
  std::sort(in_fixture.begin(), in_fixture.end());
  EXPECT_EQ(in_fixture, kernels_run());
}

// Of 16-bit operands too, the fp32 result is as good as one of fp32 operands.
TEST(GemmOracle, FloatResultsAreNotRounded) {
  const json fixture = read_fixture("kernels");
  for (const json& row : fixture.at("kernels").at("Gemm")) {
    const at::Tensor truth = fixture_tensor(row.at("results").at("y"));
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const Case in(row, type);
      const at::Tensor x = in.data("x"), weight = in.data("weight"), bias = in.parameter("bias");
      const at::Tensor y =
          Gemm::multiply_to_float({.a = x, .b = weight, .transpose_b = true, .bias = &bias});
      EXPECT_LE(relative_error(y, truth), kernel_tolerance(at::kFloat)) << type;
    }
  }
}

}  // namespace kernel_oracle_test
}  // namespace sotto::test
