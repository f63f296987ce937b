#include "sotto/nn/layer_tiers.h"

#include <gtest/gtest.h>

#include "support/thrown.h"

namespace sotto::nn {
namespace {

using test::contains;
using test::message_of;

TEST(LayerTiers, CanBeTheSameForAllLayers) {
  const LayerTiers tiers = LayerTiers::parse("ffn");
  EXPECT_EQ(tiers, Tier::kFfn);
  EXPECT_EQ(tiers.of(0), Tier::kFfn);
  EXPECT_EQ(tiers.of(99), Tier::kFfn);
  EXPECT_EQ(tiers.to_string(), "ffn");
}

TEST(LayerTiers, CanBeGroupsFromTheFirstLayer) {
  const LayerTiers tiers = LayerTiers::parse("2 block, 1 qkv , none");
  EXPECT_EQ(tiers.first(5),
            (std::vector{Tier::kBlock, Tier::kBlock, Tier::kQkv, Tier::kNone, Tier::kNone}));
  EXPECT_EQ(tiers.to_string(), "2 block, 1 qkv, none");
  EXPECT_TRUE(tiers.has(Tier::kQkv));
  EXPECT_FALSE(tiers.has(Tier::kHost));
}

// Equal tiers have the same text, so that equal plans have equal files.
TEST(LayerTiers, HaveACanonicalText) {
  EXPECT_EQ(LayerTiers::parse("2 block, 3 block, 1 none, none").to_string(), "5 block, none");
  EXPECT_EQ(LayerTiers::parse("4 block").to_string(), "block");
  EXPECT_EQ(LayerTiers({{.num_layers = 0, .tier = Tier::kHost}}, Tier::kNorms), Tier::kNorms);
}

TEST(LayerTiers, AreRefusedIfInvalid) {
  EXPECT_PRED2(contains, message_of<ConfigError>([] { LayerTiers::parse("nroms"); }),
               "Did you mean 'norms'?");
  EXPECT_PRED2(contains, message_of<ConfigError>([] { LayerTiers::parse("block, norms"); }),
               "without its number of layers");
  for (const char* text : {"", "0 block, norms", "-1 block, norms", "3, norms", "3 block,",
                           "99999999999999999999 block, norms", "block norms"}) {
    EXPECT_THROW(LayerTiers::parse(text), ConfigError) << text;
  }
}

TEST(LayerTiers, MustMatchTheNetwork) {
  const LayerTiers tiers = LayerTiers::parse("3 block, norms");
  EXPECT_NO_THROW(tiers.check(3));
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { tiers.check(2); }), "Expected at most 2");
}

}  // namespace
}  // namespace sotto::nn
