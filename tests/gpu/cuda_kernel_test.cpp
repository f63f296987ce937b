// Every kernel of the table that has a CUDA version: against the CPU's in the same type.
#include <gtest/gtest.h>

#include <set>

#include "sotto/device/target.h"
#include "sotto/kernels/attention/attention.h"
#include "sotto/kernels/convolution/depthwise_convolution.h"
#include "sotto/kernels/convolution/grouped_convolution.h"
#include "support/gpu.h"
#include "support/kernel_case_tools.h"
#include "support/tolerance.h"

namespace sotto::test {
namespace {

class CudaKernels : public ::testing::TestWithParam<std::tuple<KernelCase, at::ScalarType>> {};

void expect_agreement(const KernelCase& row, at::ScalarType type, const Shape& shape) {
  const std::vector<Input> inputs = row.make_inputs(shape);
  const Tensors on_cpu = row.run(materialise(inputs, type, at::kCPU),
                                 kernels::Packing(lengths_for(shape.rows), at::kCPU));
  const Tensors on_gpu = row.run(materialise(inputs, type, at::kCUDA),
                                 kernels::Packing(lengths_for(shape.rows), at::kCUDA));
  for (size_t i = 0; i < on_cpu.size(); ++i) {
    EXPECT_LE(relative_error(on_gpu[i], on_cpu[i]), cuda_tolerance(type))
        << row.kernel << " result " << i << " at [" << shape.rows << ", " << shape.width << "]";
  }
}

// y, dx and the weight's gradient of x, dy and weight.
Tensors run_convolution(const Tensors& in, const kernels::Packing& packing,
                        const kernels::GroupedConvolution::Options& options) {
  using kernels::GroupedConvolution;
  at::Tensor grad_weight = float_zeros(in[2].sizes(), in[2]);
  GroupedConvolution::accumulate(grad_weight, {.dy = in[1], .x = in[0]}, packing, options);
  return {GroupedConvolution::forward(in[0], in[2], packing, options),
          GroupedConvolution::input_gradient(in[1], in[2], packing, options), grad_weight};
}

TEST_P(CudaKernels, AgreeWithTheCpu) {
  const auto& [row, type] = GetParam();
  SOTTO_SKIP_WITHOUT_GPU();
  for (const Shape& shape : kernel_shapes()) expect_agreement(row, type, shape);
}

// Rows of real widths, and such that no block holds in its registers, with and without vectors.
TEST_P(CudaKernels, AgreeWithTheCpuOnWideRows) {
  const auto& [row, type] = GetParam();
  static const std::set<std::string> kNames = {
      "BatchNorm",      "ColumnSum",    "DepthwiseConvolution",
      "Dropout",        "Embedding",    "FrameWindows",
      "Gelu",           "Glu",          "GroupNorm",
      "ImageDepthwise", "ImageWindows", "LayerNorm",
      "PositionAdd",    "ResidualAdd",  "RmsNorm",
      "SinusoidAdd",    "WeightNorm"};
  if (!kNames.contains(row.kernel)) return;
  SOTTO_SKIP_WITHOUT_GPU();
  for (const Shape& shape : {Shape{700, 512}, Shape{70, 1024}, Shape{40, 5120}, Shape{33, 1283},
                             Shape{3, 20'008}, Shape{3, 20'011}})
    expect_agreement(row, type, shape);
}

// With and without vectors, in blocks of several sizes, and windows in chunks that end inside of
// utterances.
TEST(CudaGroupedConvolution, AgreesWithTheCpuAtPositionalShapes) {
  SOTTO_SKIP_WITHOUT_GPU();
  const std::vector<int64_t> lengths = {130, 1, 64, 17, 300};
  const kernels::Packing on_host(lengths, at::kCPU), on_gpu(lengths, at::kCUDA);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const int64_t channels : {48, 64, 30}) {
      const at::Tensor x = random_values({on_host.num_frames(), 4 * channels}, 1).to(type);
      const at::Tensor dy = random_values({on_host.num_frames(), 4 * channels}, 2).to(type);
      const at::Tensor weight = random_values({4 * channels, channels, 128}, 3).to(type);
      const Tensors truth = run_convolution({x, dy, weight}, on_host, {});
      for (const kernels::GroupedConvolution::Options options :
           {kernels::GroupedConvolution::Options{}, {.block = 8}, {.max_window_bytes = 100'000}}) {
        const Tensors ours = run_convolution({x.cuda(), dy.cuda(), weight.cuda()}, on_gpu, options);
        for (size_t i = 0; i < truth.size(); ++i) {
          EXPECT_LE(relative_error(ours[i], truth[i]), cuda_tolerance(type))
              << "result " << i << " in " << type << ", " << channels << " channels, block "
              << options.block;
        }
      }
    }
  }
}

// y, dx and the parameters' gradients of x, dy, weight and bias.
Tensors run_depthwise(const Tensors& in, const kernels::Packing& packing) {
  using kernels::DepthwiseConvolution;
  at::Tensor grad_weight = float_zeros(in[2].sizes(), in[2]);
  at::Tensor grad_bias = float_zeros(in[3].sizes(), in[3]);
  DepthwiseConvolution::accumulate({.weight = grad_weight, .bias = &grad_bias},
                                   {.dy = in[1], .x = in[0]}, packing);
  return {DepthwiseConvolution::forward(in[0], {.weight = in[2], .bias = &in[3]}, packing),
          DepthwiseConvolution::input_gradient(in[1], in[2], packing), grad_weight, grad_bias};
}

// With and without pairs of channels, taps of one pass and of several, utterances that end
// everywhere in a tile, and frames for several slabs; weights in fp32 as masters are.
TEST(CudaDepthwiseConvolution, AgreesWithTheCpuAtRealShapes) {
  SOTTO_SKIP_WITHOUT_GPU();
  const std::vector<int64_t> lengths = {130, 1, 64, 17, 300, 15, 16, 700};
  const kernels::Packing on_host(lengths, at::kCPU), on_gpu(lengths, at::kCUDA);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const int64_t channels : {128, 512, 1024, 45}) {
      for (const int64_t taps : {9, 31, 67}) {
        const at::Tensor x = random_values({on_host.num_frames(), channels}, 1).to(type);
        const at::Tensor dy = random_values({on_host.num_frames(), channels}, 2).to(type);
        const at::Tensor weight = random_values({channels, taps}, 3).to(at::kFloat);
        const at::Tensor bias = random_values({channels}, 4).to(at::kFloat);
        const Tensors truth = run_depthwise({x, dy, weight, bias}, on_host);
        const Tensors ours =
            run_depthwise({x.cuda(), dy.cuda(), weight.cuda(), bias.cuda()}, on_gpu);
        const Tensors again =
            run_depthwise({x.cuda(), dy.cuda(), weight.cuda(), bias.cuda()}, on_gpu);
        for (size_t i = 0; i < truth.size(); ++i) {
          EXPECT_LE(relative_error(ours[i], truth[i]), cuda_tolerance(type))
              << "result " << i << " in " << type << ", " << channels << " channels, " << taps
              << " taps";
          EXPECT_TRUE(at::equal(ours[i], again[i])) << "result " << i << " changes";
        }
      }
    }
  }
}

// Inputs of attention with relative positions: qkv, dy, positions and both biases.
Tensors relative_inputs(const std::vector<int64_t>& lengths, int64_t width, at::ScalarType type) {
  const kernels::Packing packing(lengths, at::kCPU);
  return {random_values({packing.num_frames(), 3 * width}, 1).to(type),
          random_values({packing.num_frames(), width}, 2).to(type),
          random_values({2 * packing.max_length() + 1, width}, 3).to(type),
          random_values({width}, 4).to(at::kFloat), random_values({width}, 5).to(at::kFloat)};
}

// y, dqkv and the gradients of positions and biases.
Tensors run_relative(const Tensors& in, const kernels::Packing& packing,
                     const kernels::Attention::Options& options) {
  using kernels::Attention;
  at::Tensor d_content = at::zeros_like(in[3]), d_position = at::zeros_like(in[4]);
  Attention::Relative::Gradients gradients{.content_bias = d_content, .position_bias = d_position};
  const Attention::Relative relative{
      .positions = in[2], .content_bias = in[3], .position_bias = in[4], .gradients = &gradients};
  const Attention::Result result = Attention::forward(in[0], packing, options, &relative);
  const at::Tensor dqkv =
      Attention::backward({.dy = in[1], .qkv = in[0], .y = result.y, .softmax = result.softmax},
                          packing, options, &relative);
  return {result.y, dqkv, gradients.positions, d_content, d_position};
}

Tensors on_gpu(const Tensors& tensors) {
  Tensors copies;
  for (const at::Tensor& tensor : tensors) copies.push_back(tensor.cuda());
  return copies;
}

void check_relative(const std::vector<int64_t>& lengths, int64_t head_size,
                    const kernels::Attention::Options& options, at::ScalarType type) {
  const Tensors in = relative_inputs(lengths, options.num_heads * head_size, type);
  const Tensors truth = run_relative(in, kernels::Packing(lengths, at::kCPU), options);
  const Tensors ours = run_relative(on_gpu(in), kernels::Packing(lengths, at::kCUDA), options);
  for (size_t i = 0; i < truth.size(); ++i) {
    EXPECT_LE(relative_error(ours[i], truth[i]), cuda_tolerance(type))
        << "result " << i << " in " << type << ", heads of " << head_size << ", left "
        << options.left.value_or(-1) << " right " << options.right.value_or(-1);
  }
}

// Lengths around the sizes of tiles, and more utterances than a warp has lanes; head sizes with and
// without a kernel for tensor cores.
TEST(CudaRelativeAttention, AgreesWithTheCpu) {
  SOTTO_SKIP_WITHOUT_GPU();
  std::vector<int64_t> many;
  for (int64_t u = 0; u < 70; ++u) many.push_back(1 + u * 7 % 45);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const int64_t head_size : {16, 36, 48, 64, 80, 128, 200}) {
      for (kernels::Attention::Options options :
           {kernels::Attention::Options{}, {.right = 0}, {.left = 6}, {.left = 40, .right = 70}}) {
        options.num_heads = 3;
        check_relative(many, head_size, options, type);
        check_relative({63, 1, 200, 64, 17, 129}, head_size, options, type);
      }
    }
    check_relative({1000, 20}, 64, {.num_heads = 2}, type);
  }
}

// Where results must be deterministic; otherwise blocks of keys add to gradients in any order.
TEST(CudaRelativeAttention, GivesTheSameBitsEachTimeAndInAnyPack) {
  SOTTO_SKIP_WITHOUT_GPU();
  device::Target target = gpu()->target;
  target.is_deterministic = true;
  const kernels::Attention::Options options{.num_heads = 3};
  const std::vector<int64_t> lengths = {300, 70, 150};
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const Tensors in = on_gpu(relative_inputs(lengths, 3 * 64, type));
    const kernels::Packing packing(lengths, at::kCUDA);
    const Tensors in_any_order = run_relative(in, packing, options);
    const device::TargetScope scope(target);
    const Tensors once = run_relative(in, packing, options);
    const Tensors again = run_relative(in, packing, options);
    for (size_t i = 0; i < once.size(); ++i) {
      EXPECT_TRUE(at::equal(once[i], again[i])) << i;
      EXPECT_LE(relative_error(once[i], in_any_order[i]), cuda_tolerance(type)) << i;
    }
    const Tensors first = {in[0].narrow(0, 0, 300), in[1].narrow(0, 0, 300), in[2], in[3], in[4]};
    const Tensors alone = run_relative(first, kernels::Packing({300}, at::kCUDA), options);
    EXPECT_TRUE(at::equal(alone[0], once[0].narrow(0, 0, 300)));
    EXPECT_TRUE(at::equal(alone[1], once[1].narrow(0, 0, 300)));
  }
}

// y and dqkv.
Tensors run_plain_attention(const Tensors& in, const kernels::Packing& packing,
                            const kernels::Attention::Options& options) {
  using kernels::Attention;
  const Attention::Result result = Attention::forward(in[0], packing, options);
  return {result.y,
          Attention::backward({.dy = in[1], .qkv = in[0], .y = result.y, .softmax = result.softmax},
                              packing, options)};
}

// More and fewer utterances of the same length than heads: plain attention computes the former
// together.
TEST(CudaAttention, PlainHandlesUtterancesOfTheSameLength) {
  SOTTO_SKIP_WITHOUT_GPU();
  const std::vector<int64_t> lengths = {33, 33, 33, 33, 33, 12, 12, 33, 33,
                                        33, 33, 1,  1,  1,  1,  1,  40};
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const int64_t head_size : {16, 80}) {
      for (kernels::Attention::Options options :
           {kernels::Attention::Options{}, {.right = 0}, {.left = 6}}) {
        options.num_heads = 3;
        options.variant = kernels::Attention::Variant::kPlain;
        const Tensors in = relative_inputs(lengths, 3 * head_size, type);
        const Tensors truth = run_plain_attention(in, kernels::Packing(lengths, at::kCPU), options);
        const Tensors ours =
            run_plain_attention(on_gpu(in), kernels::Packing(lengths, at::kCUDA), options);
        for (size_t i = 0; i < truth.size(); ++i)
          EXPECT_LE(relative_error(ours[i], truth[i]), cuda_tolerance(type))
              << "result " << i << " in " << type << ", heads of " << head_size;
      }
    }
  }
}

// y, dq and dkv of q, kv and dy.
Tensors run_cross_attention(const Tensors& in, const kernels::Attention::Packs& packs,
                            const kernels::Attention::Options& options) {
  using kernels::Attention;
  const Attention::Result result =
      Attention::forward_cross({.q = in[0], .kv = in[1]}, packs, options);
  const Attention::CrossGradients gradients = Attention::backward_cross(
      {.dy = in[2], .q = in[0], .kv = in[1], .y = result.y, .softmax = result.softmax}, packs,
      options);
  return {result.y, gradients.dq, gradients.dkv};
}

// Lengths far apart, and heads for FlashAttention, for efficient attention and for a kernel of
// ours.
TEST(CudaAttention, CrossAttentionAgreesWithTheCpu) {
  SOTTO_SKIP_WITHOUT_GPU();
  const std::vector<int64_t> queries = {3, 50, 1, 130, 64, 17};
  const std::vector<int64_t> keys = {700, 2, 9, 65, 128, 1};
  const kernels::Packing queries_on_host(queries, at::kCPU), keys_on_host(keys, at::kCPU);
  const kernels::Packing queries_on_gpu(queries, at::kCUDA), keys_on_gpu(keys, at::kCUDA);
  const int64_t heads = 3;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const int64_t head_size : {5, 20, 64, 80, 200}) {
      const int64_t width = heads * head_size;
      const at::Tensor q = random_values({queries_on_host.num_frames(), width}, 1).to(type);
      const at::Tensor kv = random_values({keys_on_host.num_frames(), 2 * width}, 2).to(type);
      const at::Tensor dy = random_values({queries_on_host.num_frames(), width}, 3).to(type);
      const Tensors truth = run_cross_attention(
          {q, kv, dy}, {.queries = queries_on_host, .keys = keys_on_host}, {.num_heads = heads});
      const Tensors ours = run_cross_attention({q.cuda(), kv.cuda(), dy.cuda()},
                                               {.queries = queries_on_gpu, .keys = keys_on_gpu},
                                               {.num_heads = heads});
      for (size_t i = 0; i < truth.size(); ++i) {
        EXPECT_LE(relative_error(ours[i], truth[i]), cuda_tolerance(type))
            << "result " << i << " in " << type << ", heads of " << head_size;
      }
    }
  }
}

// Features are of fp32 in every run: TF32, where it is allowed, does not reach them.
TEST(CudaLogMel, NeverUsesTf32) {
  SOTTO_SKIP_WITHOUT_GPU();
  for (const KernelCase& row : cuda_kernel_cases()) {
    if (!row.kernel.starts_with("LogMel")) continue;
    at::globalContext().setAllowTF32CuBLAS(true);
    expect_agreement(row, at::kFloat, {.rows = 1030, .width = 33});
    EXPECT_TRUE(at::globalContext().allowTF32CuBLAS());
    at::globalContext().setAllowTF32CuBLAS(false);
  }
}

std::string name_of_case(const ::testing::TestParamInfo<CudaKernels::ParamType>& info) {
  return std::get<0>(info.param).kernel + "_" + c10::toString(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Table, CudaKernels,
                         ::testing::Combine(::testing::ValuesIn(cuda_kernel_cases()),
                                            ::testing::Values(at::kFloat, at::kBFloat16,
                                                              at::kHalf)),
                         name_of_case);

}  // namespace
}  // namespace sotto::test
