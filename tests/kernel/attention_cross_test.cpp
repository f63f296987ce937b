// Attention of the queries of one pack over the keys of another: values and gradients, lengths far
// apart, any number of cores, costs.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "sotto/device/target.h"
#include "sotto/kernels/attention/attention.h"
#include "sotto/kernels/base/cost.h"
#include "support/attention_reference.h"
#include "support/kernel_case_tools.h"
#include "support/tolerance.h"

namespace sotto::kernels {
namespace attention_cross_test {

using Options = Attention::Options;
using test::random_values;

struct Lengths {
  std::vector<int64_t> queries;
  std::vector<int64_t> keys;
};

// Around the sizes of tiles, one query, one key, few of one and many of the other.
const Lengths kLengths{.queries = {3, 50, 1, 130, 64, 17}, .keys = {700, 2, 9, 65, 128, 1}};

struct Inputs {
  at::Tensor q;
  at::Tensor kv;
  at::Tensor dy;
};

Inputs inputs_for(const Attention::Packs& packs, int64_t width, at::ScalarType type = at::kFloat) {
  return {.q = random_values({packs.queries.num_frames(), width}, 1).to(type),
          .kv = random_values({packs.keys.num_frames(), 2 * width}, 2).to(type),
          .dy = random_values({packs.queries.num_frames(), width}, 3).to(type)};
}

struct Outputs {
  Attention::Result forward;
  Attention::CrossGradients backward;
};

Outputs run(const Inputs& in, const Attention::Packs& packs, const Options& options) {
  Outputs out{.forward = Attention::forward_cross({.q = in.q, .kv = in.kv}, packs, options),
              .backward = {}};
  out.backward = Attention::backward_cross(
      {.dy = in.dy, .q = in.q, .kv = in.kv, .y = out.forward.y, .softmax = out.forward.softmax},
      packs, options);
  return out;
}

void expect_truth(const Lengths& lengths, int64_t num_heads, int64_t head_size,
                  at::ScalarType type) {
  const Packing queries(lengths.queries, at::kCPU), keys(lengths.keys, at::kCPU);
  const Attention::Packs packs{.queries = queries, .keys = keys};
  const Inputs in = inputs_for(packs, num_heads * head_size, type);
  const Outputs ours = run(in, packs, {.num_heads = num_heads});
  const test::CrossAttentionTruth truth = test::cross_attention_truth(
      {.q = in.q.to(at::kDouble), .kv = in.kv.to(at::kDouble), .dy = in.dy.to(at::kDouble)}, packs,
      num_heads);
  const double tolerance = test::kernel_tolerance(type);
  EXPECT_LE(test::relative_error(ours.forward.y, truth.y), tolerance);
  EXPECT_LE(test::relative_error(ours.backward.dq, truth.dq), tolerance);
  EXPECT_LE(test::relative_error(ours.backward.dkv, truth.dkv), tolerance);
  EXPECT_LE(test::relative_error(ours.forward.softmax, truth.logsumexp),
            test::kernel_tolerance(at::kFloat));
}

void expect_same_bits(const Outputs& a, const Outputs& b) {
  EXPECT_TRUE(at::equal(a.forward.y, b.forward.y));
  EXPECT_TRUE(at::equal(a.forward.softmax, b.forward.softmax));
  EXPECT_TRUE(at::equal(a.backward.dq, b.backward.dq));
  EXPECT_TRUE(at::equal(a.backward.dkv, b.backward.dkv));
}

class CrossAttention : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(CrossAttention, SeesExactlyTheKeysOfItsUtterance) {
  expect_truth(kLengths, 2, 16, GetParam());
  // Utterances one by one: an error in a short one is not lost among the others. Over one key dq is
  // zero, and no error is small beside it.
  for (size_t u = 0; u < kLengths.queries.size(); ++u) {
    if (kLengths.keys[u] == 1) continue;
    SCOPED_TRACE(u);
    expect_truth({.queries = {kLengths.queries[u]}, .keys = {kLengths.keys[u]}}, 2, 16, GetParam());
  }
}

TEST_P(CrossAttention, SupportsAnyHeadSize) {
  for (const int64_t head_size : {1, 20, 24, 64, 80, 256}) {
    SCOPED_TRACE(head_size);
    expect_truth({.queries = {3, 70}, .keys = {150, 5}}, 3, head_size, GetParam());
  }
}

TEST_P(CrossAttention, SpansManyTilesOnBothSides) {
  expect_truth({.queries = {400}, .keys = {700}}, 1, 20, GetParam());
  expect_truth({.queries = {600}, .keys = {300}}, 1, 20, GetParam());
}

// With one head, cores are idle unless backward is split more finely: both splits are compared.
TEST_P(CrossAttention, GivesTheSameBitsOnAnyNumberOfCores) {
  const Packing queries({40, 520}, at::kCPU), keys({500, 300}, at::kCPU);
  const Attention::Packs packs{.queries = queries, .keys = keys};
  const Inputs in = inputs_for(packs, 24, GetParam());
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const Outputs on_one = run(in, packs, {.num_heads = 1});
  for (const int cores : {2, 3}) {
    at::set_num_threads(cores);
    expect_same_bits(run(in, packs, {.num_heads = 1}), on_one);
  }
  at::set_num_threads(before);
}

TEST_P(CrossAttention, GivesTheSameBitsInAnyPack) {
  const Packing queries({70, 30, 9}, at::kCPU), keys({15, 150, 90}, at::kCPU);
  const Inputs in = inputs_for({.queries = queries, .keys = keys}, 40, GetParam());
  const Outputs among_others = run(in, {.queries = queries, .keys = keys}, {.num_heads = 2});
  const Packing its_queries({30}, at::kCPU), its_keys({150}, at::kCPU);
  const Inputs alone{
      .q = in.q.narrow(0, 70, 30), .kv = in.kv.narrow(0, 15, 150), .dy = in.dy.narrow(0, 70, 30)};
  const Outputs by_itself =
      run(alone, {.queries = its_queries, .keys = its_keys}, {.num_heads = 2});
  EXPECT_TRUE(at::equal(among_others.forward.y.narrow(0, 70, 30), by_itself.forward.y));
  EXPECT_TRUE(at::equal(among_others.backward.dq.narrow(0, 70, 30), by_itself.backward.dq));
  EXPECT_TRUE(at::equal(among_others.backward.dkv.narrow(0, 15, 150), by_itself.backward.dkv));
}

TEST_P(CrossAttention, OverTheSamePackIsSelfAttention) {
  const Packing packing({130, 1, 77}, at::kCPU);
  const Attention::Packs packs{.queries = packing, .keys = packing};
  const Inputs in = inputs_for(packs, 40, GetParam());
  const Outputs cross = run(in, packs, {.num_heads = 2});
  const at::Tensor qkv = at::cat({in.q, in.kv}, 1);
  const Attention::Result self = Attention::forward(qkv, packing, {.num_heads = 2});
  const at::Tensor dqkv = Attention::backward(
      {.dy = in.dy, .qkv = qkv, .y = self.y, .softmax = self.softmax}, packing, {.num_heads = 2});
  EXPECT_TRUE(at::equal(cross.forward.y, self.y));
  EXPECT_TRUE(at::equal(cross.forward.softmax, self.softmax));
  EXPECT_TRUE(at::equal(at::cat({cross.backward.dq, cross.backward.dkv}, 1), dqkv));
}

TEST_P(CrossAttention, OneKeyGivesItsValueToEveryQuery) {
  const Packing queries({5, 1}, at::kCPU), keys({1, 1}, at::kCPU);
  const Attention::Packs packs{.queries = queries, .keys = keys};
  const Inputs in = inputs_for(packs, 24, GetParam());
  const Outputs out = run(in, packs, {.num_heads = 2});
  const at::Tensor values = in.kv.narrow(1, 24, 24);
  EXPECT_TRUE(at::equal(out.forward.y.narrow(0, 0, 5), values[0].expand({5, 24})));
  EXPECT_TRUE(at::equal(out.forward.y[5], values[1]));
  EXPECT_TRUE(at::equal(out.backward.dkv[1].narrow(0, 24, 24), in.dy[5]));
  EXPECT_LT(out.backward.dq.abs().max().item<double>(), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Types, CrossAttention,
                         ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& test) { return std::string(c10::toString(test.param)); });

TEST(CrossAttentionCost, CountsPairs) {
  const Packing queries({3, 50, 1}, at::kCPU), keys({70, 2, 9}, at::kCPU);
  const Attention::Packs packs{.queries = queries, .keys = keys};
  const CostRecorder recorder;
  run(inputs_for(packs, 32), packs, {.num_heads = 4});
  const Cost forward = recorder.by_kernel().at("attention_cross.forward").total;
  const Cost backward = recorder.by_kernel().at("attention_cross.backward").total;
  const double pairs = 3 * 70 + 50 * 2 + 1 * 9;
  EXPECT_EQ(forward.flops, 4.0 * 32 * pairs);
  EXPECT_EQ(backward.flops, 10.0 * 32 * pairs);
  // q and y of 54 queries, k and v of 81 keys; gradients besides, and the logsumexp.
  EXPECT_EQ(forward.bytes, 4.0 * 32 * (2 * 54 + 2 * 81));
  EXPECT_EQ(backward.bytes, 2.0 * 4.0 * 32 * (2 * 54 + 2 * 81) + 4.0 * 4 * 54);
}

struct Dry {
  std::vector<int64_t> softmax_sizes;
  double backward_flops;
};

// A dry run for a GPU.
Dry run_dry(const Lengths& lengths, at::ScalarType type, int64_t num_sms) {
  const device::TargetScope target(
      {.processor = device::Processor::kCuda, .capability = 90, .num_sms = num_sms});
  const Packing queries(lengths.queries, at::kMeta), keys(lengths.keys, at::kMeta);
  const auto options = at::TensorOptions(type).device(at::kMeta);
  const Inputs in{.q = at::empty({queries.num_frames(), 128}, options),
                  .kv = at::empty({keys.num_frames(), 256}, options),
                  .dy = at::empty({queries.num_frames(), 128}, options)};
  const CostRecorder recorder;
  const Outputs out = run(in, {.queries = queries, .keys = keys}, {.num_heads = 2});
  EXPECT_EQ(out.backward.dq.sizes(), in.q.sizes());
  EXPECT_EQ(out.backward.dkv.sizes(), in.kv.sizes());
  return {.softmax_sizes = out.forward.softmax.sizes().vec(),
          .backward_flops = recorder.by_kernel().at("attention_cross.backward").total.flops};
}

// FlashAttention keeps one per query; efficient attention pads to the longest utterance.
TEST(CrossAttentionDry, KeepsOneSumPerQueryNotPerKey) {
  const Lengths lengths{.queries = {3, 50}, .keys = {700, 2}};
  EXPECT_EQ(run_dry(lengths, at::kBFloat16, 132).softmax_sizes, (std::vector<int64_t>{2, 53}));
  EXPECT_EQ(run_dry(lengths, at::kFloat, 132).softmax_sizes, (std::vector<int64_t>{2, 2, 64}));
}

// In the backward of efficient attention, one multiprocessor computes a whole head of an utterance.
TEST(CrossAttentionDry, CostIncludesWaitForMostPairs) {
  const double one = run_dry({.queries = {20}, .keys = {30}}, at::kFloat, 1).backward_flops;
  EXPECT_EQ(run_dry({.queries = {20, 10}, .keys = {30, 60}}, at::kFloat, 4).backward_flops,
            2 * one);
  // Four of eight have nothing to do, however short the second is.
  EXPECT_EQ(run_dry({.queries = {20, 10}, .keys = {30, 60}}, at::kFloat, 8).backward_flops,
            4 * one);
  EXPECT_EQ(run_dry({.queries = {20, 50}, .keys = {30, 2}}, at::kFloat, 8).backward_flops, 4 * one);
}

TEST(CrossAttentionChecks, RefuseMismatchedShapes) {
  const Packing queries({3, 4}, at::kCPU), keys({5, 1}, at::kCPU), of_one({6}, at::kCPU);
  const Attention::Packs packs{.queries = queries, .keys = keys};
  const Options options{.num_heads = 2};
  const Inputs in = inputs_for(packs, 12);
  const auto forward = [](const at::Tensor& q, const at::Tensor& kv, const Attention::Packs& of,
                          const Options& how) {
    Attention::forward_cross({.q = q, .kv = kv}, of, how);
  };
  EXPECT_NO_THROW(forward(in.q, in.kv, packs, options));
  EXPECT_THROW(forward(in.q, in.kv, {.queries = queries, .keys = of_one}, options), InternalError);
  EXPECT_THROW(forward(in.q, in.kv, {.queries = keys, .keys = queries}, options), InternalError);
  EXPECT_THROW(forward(in.q, in.q, packs, options), InternalError);
  EXPECT_THROW(forward(in.q, at::ones({6, 20}), packs, options), InternalError);
  EXPECT_THROW(forward(in.q, in.kv.to(at::kHalf), packs, options), InternalError);
  EXPECT_THROW(forward(in.q, in.kv, packs, {.num_heads = 5}), InternalError);
  EXPECT_THROW(forward(in.q, in.kv, packs, {.num_heads = 2, .left = 3}), InternalError);
  EXPECT_THROW(forward(in.q, in.kv, packs, {.num_heads = 2, .right = 0}), InternalError);
  EXPECT_THROW(forward(in.q, in.kv, packs, {.num_heads = 2, .variant = Attention::Variant::kPlain}),
               InternalError);
  const Attention::Result kept = Attention::forward_cross({.q = in.q, .kv = in.kv}, packs, options);
  const auto backward = [&](const at::Tensor& dy, const at::Tensor& softmax) {
    Attention::backward_cross({.dy = dy, .q = in.q, .kv = in.kv, .y = kept.y, .softmax = softmax},
                              packs, options);
  };
  EXPECT_NO_THROW(backward(in.dy, kept.softmax));
  EXPECT_THROW(backward(in.kv, kept.softmax), InternalError);
  EXPECT_THROW(backward(in.dy, at::ones({2, 6})), InternalError);
}

}  // namespace attention_cross_test
}  // namespace sotto::kernels
