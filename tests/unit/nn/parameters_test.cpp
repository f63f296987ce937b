#include "sotto/nn/parameters.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

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

TEST(ParameterStore, CommitsTheStatisticsOfAStep) {
  ParameterStore store;
  Parameter& mean = store.declare({.name = "mean", .shape = {3}, .trains = false});
  Parameter& variance =
      store.declare({.name = "variance", .shape = {3}, .mean = 1.0, .trains = false});
  RunningStatistics& running = store.declare_averages(mean, variance);
  store.allocate({});
  EXPECT_TRUE(running.stage.mean.is_alias_of(running.stage.variance)) << "one buffer";
  const at::Tensor x = at::arange(12, at::kFloat).view({4, 3});
  const auto expect_commits = [&](double expected_mean, double expected_variance) {
    store.commit_statistics();
    EXPECT_NEAR(mean.value[0].item<double>(), expected_mean, 1e-6);
    EXPECT_NEAR(variance.value[0].item<double>(), expected_variance, 1e-6);
  };
  kernels::BatchNorm::statistics(x, &running.stage);
  store.discard_statistics();
  expect_commits(0.0, 1.0);
  kernels::BatchNorm::statistics(x, &running.stage);
  expect_commits(0.45, 0.9 + 1.5);  // of 0, 3, 6 and 9: 4.5 and 15
  expect_commits(0.45, 0.9 + 1.5);  // nothing is left to commit
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

TEST(ParameterStore, InitialValuesMayBeUniformAndPartlyConstant) {
  ParameterStore store;
  store.declare({.name = "a.weight",
                 .shape = {100, 70},
                 .bound = 0.5,
                 .constant = {.first = 140, .count = 70, .value = 2.0}});
  store.allocate({});
  const at::Tensor& weight = store.find("a.weight")->value;
  EXPECT_TRUE(at::equal(weight[2], at::full({70}, 2.0f)));
  const at::Tensor others = at::cat({weight.narrow(0, 0, 2), weight.narrow(0, 3, 97)});
  EXPECT_LE(others.abs().max().item<double>(), 0.5);
  EXPECT_NEAR(others.mean().item<double>(), 0.0, 0.02);
  EXPECT_NEAR(others.std().item<double>(), 0.5 / std::sqrt(3.0), 0.01);
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
  RunningStatistics& running =
      store.declare_averages(*store.find("norm.weight"), *store.find("a.bias"));
  store.allocate({.trains = false});
  EXPECT_FALSE(running.stage.mean.defined());
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
