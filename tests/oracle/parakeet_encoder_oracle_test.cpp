// The encoder of FastConformers against transformers' ParakeetEncoder, one utterance at a time
// there: subsampling by 8, relative attention and frozen batch norms, with biases and without.
#include <gtest/gtest.h>

#include "oracle/model_oracle.h"
#include "sotto/nn/blocks/conformer_stack.h"
#include "sotto/nn/fronts/image_subsampling.h"

namespace sotto::test {
namespace parakeet_encoder_oracle_test {

using nn::Tier;

const ModelFixture& parakeet() {
  static const ModelFixture fixture("parakeet_encoder");
  return fixture;
}

nn::ImageSubsamplingOptions subsampling_options() {
  const nlohmann::json& shape = parakeet().scalars().at("shape");
  return {.kind = nn::ImageSubsamplingKind::kSeparable,
          .factor = shape.at("subsampling_factor"),
          .channels = shape.at("subsampling_conv_channels"),
          .num_features = shape.at("num_mel_bins"),
          .width = shape.at("hidden_size")};
}

nn::ConformerBlockOptions block_options(const std::string& variant) {
  const nlohmann::json& shape = parakeet().scalars().at("shape");
  const nlohmann::json& of_variant = parakeet().scalars().at("variants").at(variant);
  return {.width = shape.at("hidden_size"),
          .hidden = shape.at("intermediate_size"),
          .attention = {.num_heads = shape.at("num_attention_heads")},
          .kernel = shape.at("conv_kernel_size"),
          .inner_norm = nn::InnerNormKind::kFrozenBatch,
          .has_biases = of_variant.at(1),
          .dropout = 0.0,
          .activation_dropout = 0.0,
          .num_layers = of_variant.at(0)};
}

// The encoder of a variant, with its weights.
struct ParakeetEncoder {
  explicit ParakeetEncoder(const std::string& variant)
      : subsampling(store, "subsampling", subsampling_options()),
        blocks(store, "layers", {.block = block_options(variant)}) {
    store.allocate({});
    for (nn::Parameter& parameter : store.parameters())
      parameter.value.copy_(parakeet().tensor("weights." + parameter.spec.name));
  }

  nn::ParameterStore store;
  nn::ImageSubsampling subsampling;
  nn::ConformerStack blocks;
};

// All utterances in one pack.
void expect_parakeet(const std::string& variant, Tier tier) {
  SCOPED_TRACE(fmt::format("{}, tier {}", variant, static_cast<int>(tier)));
  const NetworkTolerance tolerance = network_tolerance(24);
  ParakeetEncoder encoder(variant);
  const std::vector<kernels::Packing> packings = encoder.subsampling.packings_from(
      kernels::Packing(parakeet().scalars().at("lengths").get<std::vector<int64_t>>(), at::kCPU));
  device::HostMemory memory(at::kCPU);
  nn::HostTape host(memory);
  nn::Tape tape(std::vector<Tier>(3, tier), &host);
  const nn::Context context{.step = {}, .packing = packings.back()};
  const nn::Context front = context.at_layer(encoder.blocks.num_layers());

  at::Tensor x = encoder.subsampling.forward(parakeet().packed("features"), packings, front, tape);
  EXPECT_LT(relative_error(x, parakeet().packed(variant + ".subsampled")), tolerance.logits);
  const at::Tensor y = encoder.blocks.forward(std::move(x), context, tape);
  EXPECT_LT(relative_error(y, parakeet().packed(variant + ".result")), tolerance.logits);
  const at::Tensor dx = encoder.blocks.backward(parakeet().packed("upstream"), context, tape);
  encoder.subsampling.backward(dx, packings, front, tape);
  EXPECT_EQ(tape.num_open(), 0);

  int64_t num_trained = 0;
  for (const nn::Parameter& parameter : encoder.store.parameters()) {
    const std::string name = fmt::format("{}.gradients.{}", variant, parameter.spec.name);
    EXPECT_EQ(parakeet().has(name), parameter.spec.trains) << name;
    if (!parameter.spec.trains) continue;
    EXPECT_LT(relative_error(parameter.gradient, parakeet().tensor(name)), tolerance.gradients)
        << name;
    ++num_trained;
  }
  EXPECT_EQ(num_trained, parakeet().count(variant + ".gradients.")) << "of no parameter of ours";
}

TEST(ParakeetEncoderOracle, GivesTheSameResultsAndGradients) {
  for (const Tier tier : {Tier::kNone, Tier::kNorms, Tier::kBlock}) expect_parakeet("biases", tier);
}

TEST(ParakeetEncoderOracle, GivesTheSameResultsAndGradientsWithoutBiases) {
  for (const Tier tier : {Tier::kNone, Tier::kQkv}) expect_parakeet("no_biases", tier);
}

}  // namespace parakeet_encoder_oracle_test
}  // namespace sotto::test
