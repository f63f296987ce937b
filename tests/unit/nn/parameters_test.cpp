#include "sotto/nn/parameters.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "sotto/core/error.h"

namespace sotto::nn {
namespace {

void declare_all(ParameterStore& store) {
  store.declare({.name = "a.weight", .shape = {100, 70}, .deviation = 0.5});
  store.declare({.name = "a.bias", .shape = {100}});
  store.declare({.name = "b.weight", .shape = {3, 5}, .deviation = 0.5});
  store.declare({.name = "norm.weight", .shape = {7}, .mean = 1.0});
}

TEST(ParameterStore, CutsFlatRangesIntoViews) {
  ParameterStore store;
  declare_all(store);
  store.allocate({.weights = at::kBFloat16});
  ASSERT_EQ(store.ranges().size(), 3u);
  const ParameterRange& matrices = store.ranges()[0];
  EXPECT_EQ(matrices.values.scalar_type(), at::kBFloat16);
  EXPECT_EQ(matrices.gradients.scalar_type(), at::kFloat);
  EXPECT_TRUE(matrices.decays);
  EXPECT_EQ(store.find("a.weight")->value.data_ptr(), matrices.values.data_ptr());
  EXPECT_EQ(store.find("b.weight")->value.scalar_type(), at::kFloat);
  EXPECT_TRUE(store.ranges()[1].decays);
  const ParameterRange& vectors = store.ranges()[2];
  EXPECT_FALSE(vectors.decays);
  EXPECT_FALSE(vectors.is_large);
  EXPECT_EQ(vectors.values.numel(), 128 + 64);
  EXPECT_EQ(store.find("norm.weight")->gradient.data_ptr<float>(),
            vectors.gradients.data_ptr<float>() + 128);
  EXPECT_EQ(store.num_values(), 7000 + 100 + 15 + 7);
  EXPECT_EQ(store.find("c"), nullptr);
}

TEST(ParameterStore, KeepsGradientsOfLargeMatricesInBf16) {
  ParameterStore store;
  declare_all(store);
  store.allocate({.weights = at::kBFloat16, .gradients = at::kBFloat16});
  EXPECT_TRUE(store.ranges()[0].is_large);
  EXPECT_EQ(store.find("a.weight")->gradient.scalar_type(), at::kBFloat16);
  for (const char* name : {"a.bias", "b.weight", "norm.weight"})
    EXPECT_EQ(store.find(name)->gradient.scalar_type(), at::kFloat) << name;
  ParameterStore other;
  declare_all(other);
  EXPECT_THROW(other.allocate({.gradients = at::kBFloat16}), InternalError);
}

TEST(ParameterStore, DeclaresValuesThatNeverTrain) {
  ParameterStore store;
  store.declare({.name = "norm.weight", .shape = {7}, .mean = 1.0});
  store.declare({.name = "norm.running_mean", .shape = {7}, .mean = 0.5, .trains = false});
  store.allocate({});
  const Parameter& running = *store.find("norm.running_mean");
  EXPECT_FALSE(running.gradient.defined());
  EXPECT_TRUE(at::equal(running.value, at::full({7}, 0.5)));
  EXPECT_TRUE(store.find("norm.weight")->gradient.defined());
  ASSERT_EQ(store.ranges().size(), 2u);
  EXPECT_EQ(store.ranges()[1].name, "frozen vectors");
}

TEST(GradientSum, IsTheGradientOrAddedToItOnce) {
  ParameterStore store;
  declare_all(store);
  store.allocate({.weights = at::kBFloat16, .gradients = at::kBFloat16});
  for (const char* name : {"a.weight", "a.bias"}) {
    Parameter& parameter = *store.find(name);
    parameter.gradient.fill_(1.0);
    GradientSum gradient(parameter);
    EXPECT_EQ(gradient.sum().scalar_type(), at::kFloat);
    // Each is lost beside the 1 in bf16; together they are not.
    for (int i = 0; i < 8; ++i) gradient.sum().add_(0x1p-10);
    gradient.add();
    EXPECT_TRUE((parameter.gradient == 1.0 + 0x1p-7).all().item<bool>()) << name;
  }
}

TEST(ParameterStore, InitialValuesDependOnlyOnSeedAndName) {
  ParameterStore store;
  declare_all(store);
  store.allocate({});
  const at::Tensor& weight = store.find("a.weight")->value;
  EXPECT_NEAR(weight.mean().item<double>(), 0.0, 0.02);
  EXPECT_NEAR(weight.std().item<double>(), 0.5, 0.02);
  EXPECT_TRUE(at::equal(store.find("norm.weight")->value, at::ones({7})));
  EXPECT_TRUE(at::equal(store.find("a.bias")->value, at::zeros({100})));

  ParameterStore alone;
  alone.declare({.name = "a.weight", .shape = {100, 70}, .deviation = 0.5});
  alone.allocate({});
  EXPECT_TRUE(at::equal(alone.find("a.weight")->value, weight));
  ParameterStore other;
  other.declare({.name = "a.weight", .shape = {100, 70}, .deviation = 0.5});
  other.allocate({.seed = 2});
  EXPECT_FALSE(at::equal(other.find("a.weight")->value, weight));
}

TEST(ParameterStore, ZeroesGradients) {
  ParameterStore store;
  declare_all(store);
  store.allocate({});
  for (Parameter& parameter : store.parameters()) parameter.gradient.fill_(2.0);
  store.zero_gradients();
  for (const Parameter& parameter : store.parameters())
    EXPECT_EQ(parameter.gradient.abs().sum().item<float>(), 0.0f);
}

TEST(ParameterStore, HasNoGradientsWithoutTraining) {
  ParameterStore store;
  declare_all(store);
  store.allocate({.trains = false});
  EXPECT_FALSE(store.ranges().front().gradients.defined());
  EXPECT_FALSE(store.find("a.bias")->gradient.defined());
}

TEST(ParameterStore, RefusesDuplicateAndLateNames) {
  ParameterStore store;
  declare_all(store);
  EXPECT_THROW(store.declare({.name = "a.bias", .shape = {2}}), InternalError);
  store.allocate({.device = at::kMeta});
  EXPECT_THROW(store.declare({.name = "late", .shape = {2}}), InternalError);
  EXPECT_THROW(store.allocate({.device = at::kMeta}), InternalError);
}

}  // namespace
}  // namespace sotto::nn
