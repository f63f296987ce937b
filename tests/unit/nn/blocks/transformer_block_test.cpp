// Transformer blocks against double precision and autograd.
#include "sotto/nn/blocks/transformer_block.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>

#include "support/block_fixture.h"
#include "support/tolerance.h"

namespace sotto::nn {
namespace {

using test::BlockFixture;
using test::relative_error;

struct Truth {
  at::Tensor y;
  at::Tensor dx;
  at::Tensor d_seen;
  std::map<std::string, at::Tensor> gradients;
};

// The stack by ATen in double, an utterance at a time, from the same parameters.
class Reference {
 public:
  // `seen`: the rows of another pack, where blocks look at one.
  Reference(const ParameterStore& store, const TransformerBlockOptions& options,
            const at::Tensor& seen = {})
      : options_(options) {
    if (seen.defined()) seen_ = seen.to(at::kDouble).detach().clone().set_requires_grad(true);
    for (const Parameter& parameter : store.parameters()) {
      leaves_[parameter.spec.name] =
          parameter.value.to(at::kDouble).detach().clone().set_requires_grad(true);
    }
  }

  Truth run(const at::Tensor& x, const at::Tensor& dy, const std::vector<int64_t>& lengths,
            const std::vector<int64_t>& seen_lengths = {}) {
    const at::Tensor input = x.to(at::kDouble).detach().clone().set_requires_grad(true);
    std::vector<at::Tensor> seen(lengths.size());
    if (seen_.defined()) seen = seen_.split_with_sizes(seen_lengths);
    std::vector<at::Tensor> parts = input.split_with_sizes(lengths);
    for (size_t u = 0; u < parts.size(); ++u) {
      for (int64_t layer = 0; layer < options_.num_layers; ++layer)
        parts[u] = block(parts[u], seen[u], "blocks." + std::to_string(layer));
    }
    const at::Tensor y = at::cat(parts);
    y.backward(dy.to(at::kDouble));
    Truth truth{.y = y.detach(), .dx = input.grad(), .d_seen = {}, .gradients = {}};
    if (seen_.defined()) truth.d_seen = seen_.grad();
    for (const auto& [name, leaf] : leaves_) truth.gradients[name] = leaf.grad();
    return truth;
  }

 private:
  at::Tensor linear(const at::Tensor& x, const std::string& name) {
    return at::addmm(leaves_.at(name + ".bias"), x, leaves_.at(name + ".weight").t());
  }
  at::Tensor norm(const at::Tensor& x, const std::string& name) {
    const at::Tensor& gamma = leaves_.at(name + ".weight");
    if (options_.norm == NormKind::kRms)
      return x * at::rsqrt(x.pow(2).mean(1, /*keepdim=*/true) + 1e-6) * gamma;
    return at::layer_norm(x, {x.size(1)}, gamma, leaves_.at(name + ".bias"), 1e-5);
  }
  at::Tensor attention(const at::Tensor& x, const std::string& name) {
    const int64_t frames = x.size(0);
    const int64_t heads = options_.attention.num_heads;
    const at::Tensor qkv =
        linear(x, name + ".qkv").view({frames, 3, heads, -1}).permute({1, 2, 0, 3});
    const int64_t head_size = options_.width / heads;
    at::Tensor scores =
        at::matmul(qkv[0], qkv[1].transpose(1, 2)) / std::sqrt(static_cast<double>(head_size));
    const at::Tensor distance =
        at::arange(frames).unsqueeze(0) - at::arange(frames).unsqueeze(1);  // key - query
    if (options_.attention.left)
      scores = scores.masked_fill(distance < -*options_.attention.left, -1e30);
    if (options_.attention.right)
      scores = scores.masked_fill(distance > *options_.attention.right, -1e30);
    const at::Tensor mixed = at::matmul(at::softmax(scores, 2), qkv[2]);
    return linear(mixed.transpose(0, 1).reshape({frames, -1}), name + ".out");
  }
  at::Tensor feed_forward(const at::Tensor& x, const std::string& name) {
    const at::Tensor hidden = linear(x, name + ".in");
    switch (options_.activation) {
      case Activation::kGelu: return linear(at::gelu(hidden), name + ".out");
      case Activation::kRelu: return linear(at::relu(hidden), name + ".out");
      case Activation::kSilu: return linear(at::silu(hidden), name + ".out");
    }
    return {};
  }
  at::Tensor cross(const at::Tensor& x, const at::Tensor& seen, const std::string& name) {
    const int64_t heads = options_.attention.num_heads;
    const at::Tensor q = linear(norm(x, name + ".norm"), name + ".query")
                             .view({x.size(0), heads, -1})
                             .transpose(0, 1);
    const at::Tensor kv =
        linear(seen, name + ".kv").view({seen.size(0), 2, heads, -1}).permute({1, 2, 0, 3});
    const at::Tensor scores =
        at::matmul(q, kv[0].transpose(1, 2)) / std::sqrt(static_cast<double>(kv.size(3)));
    const at::Tensor mixed = at::matmul(at::softmax(scores, 2), kv[1]);
    return linear(mixed.transpose(0, 1).reshape({x.size(0), -1}), name + ".out");
  }
  at::Tensor block(const at::Tensor& x, const at::Tensor& seen, const std::string& name) {
    if (options_.norm_first) {
      at::Tensor middle = x + attention(norm(x, name + ".norm1"), name + ".attention");
      if (seen.defined()) middle = middle + cross(middle, seen, name + ".cross");
      return middle + feed_forward(norm(middle, name + ".norm2"), name + ".ffn");
    }
    const at::Tensor normed = norm(x + attention(x, name + ".attention"), name + ".norm1");
    return norm(normed + feed_forward(normed, name + ".ffn"), name + ".norm2");
  }

  TransformerBlockOptions options_;
  at::Tensor seen_;
  std::map<std::string, at::Tensor> leaves_;
};

// The key's bias moves all scores of a row alike: its exact gradient is zero. The other two thirds
// of the bias are compared.
struct QkvBias {
  at::Tensor key;
  at::Tensor others;
};
QkvBias split_qkv_bias(const at::Tensor& bias) {
  const std::vector<at::Tensor> parts = bias.chunk(3);
  return {.key = parts[1], .others = at::cat({parts[0], parts[2]})};
}

void expect_same_gradients(const ParameterStore& store, const Truth& truth, double tolerance) {
  for (const Parameter& parameter : store.parameters()) {
    const std::string& name = parameter.spec.name;
    at::Tensor ours = parameter.gradient;
    at::Tensor theirs = truth.gradients.at(name);
    if (name.ends_with("attention.qkv.bias")) {
      EXPECT_LT(split_qkv_bias(ours).key.abs().max().item<double>(),
                tolerance * theirs.abs().max().item<double>())
          << name;
      ours = split_qkv_bias(ours).others;
      theirs = split_qkv_bias(theirs).others;
    }
    EXPECT_LT(relative_error(ours, theirs), tolerance) << name;
  }
}

void expect_agreement(const TransformerBlockOptions& options, at::ScalarType type) {
  BlockFixture fixture(options, type);
  for (Parameter& parameter : fixture.store.parameters()) {
    // Norms and biases away from 1 and 0, so that each can be seen to matter.
    if (!parameter.spec.decays()) parameter.value.add_(at::rand(parameter.value.sizes()) * 0.2);
  }
  const std::vector<int64_t> lengths = {5, 19, 1, 8};
  const kernels::Packing packing(lengths, at::kCPU);
  const at::Tensor x = at::randn({33, options.width}).to(type);
  const at::Tensor dy = at::randn({33, options.width}).to(type);
  const Truth truth = Reference(fixture.store, options).run(x, dy, lengths);

  Tape tape;
  const Context context{.step = {}, .packing = packing};
  // Two blocks of rounded 16-bit activations add their errors up.
  const double tolerance = (type == at::kFloat ? 2.0 : 6.0) * test::kernel_tolerance(type);
  EXPECT_LT(relative_error(fixture.stack.forward(x.clone(), context, tape), truth.y), tolerance);
  EXPECT_LT(relative_error(fixture.stack.backward(dy.clone(), context, tape), truth.dx), tolerance);
  EXPECT_EQ(tape.num_open(), 0);
  expect_same_gradients(fixture.store, truth, tolerance);
}

// Blocks that look at another pack, whose rows have one gradient that all of them add to.
void expect_agreement_over(const std::vector<int64_t>& seen_lengths, at::ScalarType type,
                           Tier tier) {
  const TransformerBlockOptions options{.width = 24,
                                        .hidden = 40,
                                        .attention = {.num_heads = 3, .right = 0},
                                        .dropout = 0.0,
                                        .activation_dropout = 0.0,
                                        .seen_width = 16,
                                        .num_layers = 2};
  BlockFixture fixture(options, type);
  for (Parameter& parameter : fixture.store.parameters())
    if (!parameter.spec.decays()) parameter.value.add_(at::rand(parameter.value.sizes()) * 0.2);
  const std::vector<int64_t> lengths = {5, 19, 1, 8};
  const kernels::Packing packing(lengths, at::kCPU), seen_packing(seen_lengths, at::kCPU);
  const at::Tensor x = at::randn({33, 24}).to(type), dy = at::randn({33, 24}).to(type);
  const at::Tensor seen = at::randn({seen_packing.num_frames(), 16}).to(type);
  const Truth truth = Reference(fixture.store, options, seen).run(x, dy, lengths, seen_lengths);

  Tape tape(test::tiers_of(2, tier));
  SharedResult shared;
  shared.put(seen);
  const SeenPack other{.packing = seen_packing, .result = shared};
  const Context context{.step = {}, .packing = packing, .seen = &other};
  const double tolerance = (type == at::kFloat ? 2.0 : 8.0) * test::kernel_tolerance(type);
  EXPECT_LT(relative_error(fixture.stack.forward(x.clone(), context, tape), truth.y), tolerance);
  EXPECT_LT(relative_error(fixture.stack.backward(dy.clone(), context, tape), truth.dx), tolerance);
  EXPECT_EQ(tape.num_open(), 0);
  EXPECT_LT(relative_error(shared.take_gradient(), truth.d_seen), tolerance);
  for (const Parameter& parameter : fixture.store.parameters()) {
    // Biases of keys have a gradient of zero.
    const std::string& name = parameter.spec.name;
    if (name.ends_with("qkv.bias") || name.ends_with("kv.bias")) continue;
    EXPECT_LT(relative_error(parameter.gradient, truth.gradients.at(name)), tolerance) << name;
  }
}

TransformerBlockOptions small() {
  return {.width = 24,
          .hidden = 40,
          .attention = {.num_heads = 3},
          .dropout = 0.0,
          .activation_dropout = 0.0,
          .num_layers = 2};
}

TEST(TransformerBlock, MatchesAutogradWithPreNorm) {
  at::manual_seed(1);
  expect_agreement(small(), at::kFloat);
  expect_agreement(small(), at::kBFloat16);
}

TEST(TransformerBlock, MatchesAutogradWithPostNorm) {
  at::manual_seed(2);
  TransformerBlockOptions options = small();
  options.norm_first = false;
  expect_agreement(options, at::kFloat);
  expect_agreement(options, at::kBFloat16);
}

TEST(TransformerBlock, MatchesAutogradWithOtherParts) {
  at::manual_seed(3);
  TransformerBlockOptions options = small();
  options.norm = NormKind::kRms;
  options.activation = Activation::kSilu;
  options.attention.left = 4;
  options.attention.right = 2;
  expect_agreement(options, at::kFloat);
  options.activation = Activation::kRelu;
  options.attention.left = std::nullopt;
  options.attention.right = 0;  // causal
  expect_agreement(options, at::kFloat);
  options.attention.variant = kernels::Attention::Variant::kPlain;
  expect_agreement(options, at::kFloat);
}

TEST(TransformerBlock, MatchesAutogradWithCrossAttention) {
  at::manual_seed(4);
  for (const Tier tier : {Tier::kNone, Tier::kNorms, Tier::kFfn, Tier::kQkv, Tier::kBlock})
    expect_agreement_over({7, 3, 40, 1}, at::kFloat, tier);
  expect_agreement_over({7, 3, 40, 1}, at::kBFloat16, Tier::kNorms);
}

TEST(TransformerBlock, GradientsAccumulate) {
  BlockFixture fixture(small());
  const kernels::Packing packing({4}, at::kCPU);
  const Context context{.step = {}, .packing = packing};
  const at::Tensor x = at::linspace(-1, 1, 96).view({4, 24});
  const auto run = [&] {
    Tape tape;
    fixture.stack.forward(x.clone(), context, tape);
    fixture.stack.backward(at::linspace(1, -2, 96).view({4, 24}), context, tape);
  };
  run();
  const at::Tensor& gradient = fixture.store.find("blocks.0.ffn.in.weight")->gradient;
  const at::Tensor once = gradient.clone();
  run();
  EXPECT_LT(relative_error(gradient, 2 * once), 1e-6);
}

}  // namespace
}  // namespace sotto::nn
