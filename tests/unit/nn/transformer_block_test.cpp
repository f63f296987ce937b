// Transformer blocks against double precision and autograd.
#include "sotto/nn/transformer_block.h"

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
  std::map<std::string, at::Tensor> gradients;
};

// The stack by ATen in double, an utterance at a time, from the same parameters.
class Reference {
 public:
  Reference(const ParameterStore& store, const TransformerBlockOptions& options)
      : options_(options) {
    for (const Parameter& parameter : store.parameters()) {
      leaves_[parameter.spec.name] =
          parameter.value.to(at::kDouble).detach().clone().set_requires_grad(true);
    }
  }

  Truth run(const at::Tensor& x, const at::Tensor& dy, const std::vector<int64_t>& lengths) {
    const at::Tensor input = x.to(at::kDouble).detach().clone().set_requires_grad(true);
    std::vector<at::Tensor> parts;
    for (at::Tensor part : input.split_with_sizes(lengths)) {
      for (int64_t layer = 0; layer < options_.num_layers; ++layer)
        part = block(part, "blocks." + std::to_string(layer));
      parts.push_back(part);
    }
    const at::Tensor y = at::cat(parts);
    y.backward(dy.to(at::kDouble));
    Truth truth{.y = y.detach(), .dx = input.grad(), .gradients = {}};
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
  at::Tensor block(const at::Tensor& x, const std::string& name) {
    if (options_.norm_first) {
      const at::Tensor middle = x + attention(norm(x, name + ".norm1"), name + ".attention");
      return middle + feed_forward(norm(middle, name + ".norm2"), name + ".ffn");
    }
    const at::Tensor normed = norm(x + attention(x, name + ".attention"), name + ".norm1");
    return norm(normed + feed_forward(normed, name + ".ffn"), name + ".norm2");
  }

  TransformerBlockOptions options_;
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

TransformerBlockOptions small() {
  return {.width = 24,
          .hidden = 40,
          .attention = {.num_heads = 3},
          .dropout = 0.0,
          .activation_dropout = 0.0,
          .num_layers = 2};
}

TEST(TransformerBlock, IsAutogradsWithNormsBefore) {
  at::manual_seed(1);
  expect_agreement(small(), at::kFloat);
  expect_agreement(small(), at::kBFloat16);
}

TEST(TransformerBlock, IsAutogradsWithNormsBehind) {
  at::manual_seed(2);
  TransformerBlockOptions options = small();
  options.norm_first = false;
  expect_agreement(options, at::kFloat);
  expect_agreement(options, at::kBFloat16);
}

TEST(TransformerBlock, IsAutogradsWithOtherParts) {
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

TEST(TransformerBlock, GradientsAddUp) {
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
