#include "sotto/lab/suite.h"

#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::lab {
namespace {

using test::contains;
using test::message_of;

std::vector<std::string> names_in(const Suite& suite) {
  std::vector<std::string> names;
  for (const Experiment& experiment : suite.experiments) names.push_back(experiment.name);
  return names;
}

Suite techniques() {
  return find_suite("techniques");
}

std::string refusal(const std::string& yaml) {
  return message_of<ConfigError>([&] { parse_suite(yaml, "mine.yaml"); });
}

TEST(Suites, OfTheProgramAreThree) {
  std::vector<std::string> names;
  for (const Suite& suite : built_in_suites()) names.push_back(suite.name);
  EXPECT_EQ(names, (std::vector<std::string>{"techniques", "limits", "sizes"}));
  EXPECT_EQ(names_in(techniques()),
            (std::vector<std::string>{"baseline", "bf16", "flash_attn", "window_512", "window_256",
                                      "grad_checkpoint", "bf16_gradcp", "flash_gradcp"}));
  EXPECT_TRUE(techniques().is_whole_batch);
}

TEST(Suites, SettingsAreFlattened) {
  const Suite suite = parse_suite(
      "name: mine\nsettings: {model: {preset: tiny, layers: 2}, tier: none}\n"
      "experiments:\n  - {name: a, settings: {numerics: bf16-exact}}\n",
      "mine.yaml");
  EXPECT_EQ(suite.settings,
            (std::vector<std::string>{"model.preset=tiny", "model.layers=2", "tier=none"}));
  EXPECT_EQ(suite.experiments[0].settings, (std::vector<std::string>{"numerics=bf16-exact"}));
  EXPECT_EQ(suite.kind, Suite::Kind::kTraining);
}

TEST(Suites, MatrixIsAllCombinations) {
  const Suite suite = parse_suite(
      "name: mine\nmatrix: {numerics: [fp32, bf16-exact], tier: [none, block]}\n", "mine.yaml");
  EXPECT_EQ(names_in(suite), (std::vector<std::string>{"fp32_none", "fp32_block", "bf16-exact_none",
                                                       "bf16-exact_block"}));
  EXPECT_EQ(suite.experiments[3].settings,
            (std::vector<std::string>{"numerics=bf16-exact", "tier=block"}));
  EXPECT_EQ(suite.experiments[3].title, "numerics bf16-exact, tier block");
}

TEST(Suites, MistakesAreNamedWithTheirLine) {
  EXPECT_PRED2(contains, refusal("name: mine\nexperiment: []\n"), "Did you mean experiments?");
  EXPECT_PRED2(contains, refusal("name: mine\nexperiment: []\n"), "line 2, column 1");
  EXPECT_PRED2(contains, refusal("name: mine\n"), "no experiments");
  EXPECT_PRED2(contains, refusal("name: a/b\nexperiments: [{name: x}]\n"), "the name 'a/b'");
  EXPECT_PRED2(contains, refusal("name: m\nexperiments: [{name: x}, {name: x}]\n"),
               "a second experiment 'x'");
  EXPECT_PRED2(contains, refusal("name: m\nkind: speed\nexperiments: [{name: x}]\n"),
               "kind 'speed'");
  EXPECT_PRED2(contains, refusal("format_version: 2\nname: m\nexperiments: [{name: x}]\n"),
               "format_version 2");
  EXPECT_PRED2(contains, refusal("name: m\nmatrix: {tier: none}\n"), "a list of values");
  EXPECT_PRED2(contains, refusal("name: m\nmatrix: {data.cache: [a/b, a-b]}\n"),
               "two combinations named 'a-b'");
  EXPECT_PRED2(contains, refusal("name: m\nexperiments: [{name: x_seed2}]\n"), "_seedN");
  EXPECT_PRED2(contains, refusal("name: m\nseeds: 0\nexperiments: [{name: x}]\n"),
               "a number above 0");
}

TEST(Suites, PartsOfOtherKindsAreRefused) {
  EXPECT_PRED2(contains, refusal("name: m\nexperiments: [{name: x}]\nbudgets: [4GiB]\n"),
               "budgets in a suite of kind training");
  EXPECT_PRED2(contains, refusal("name: m\nexperiments: [{name: x, budget: 0.5}]\n"),
               "a budget of experiment x");
  EXPECT_PRED2(contains, refusal("name: m\nkind: limits\nexperiments: [{name: x}]\n"),
               "no budget of experiment x");
  EXPECT_PRED2(contains, refusal("name: m\nkind: sizes\nmodels: [tiny]\n"),
               "without models, or without budgets");
  EXPECT_PRED2(contains, refusal("name: m\nexperiments: [{name: x}]\nmicro_batches: [8]\n"),
               "micro_batches in a suite of kind training");
  EXPECT_PRED2(contains,
               refusal("name: m\nkind: sizes\nmodels: [tiny]\nbudgets: [1GiB]\nseeds: 2\n"),
               "seeds in a suite of kind sizes");
}

TEST(Suites, UnknownNamesSuggestTheNearest) {
  EXPECT_PRED2(contains, message_of<ConfigError>([] { find_suite("technique"); }),
               "Did you mean techniques?");
  Suite suite = techniques();
  EXPECT_PRED2(contains,
               message_of<ConfigError>([&] { select_experiments(suite, {"flash_atn"}, {}); }),
               "Did you mean flash_attn?");
}

TEST(Suites, FilesAreReadByPath) {
  const test::TempFolder folder;
  folder.write("mine.yaml", "name: mine\nexperiments: [{name: x}]\n");
  EXPECT_EQ(find_suite((folder.path() / "mine.yaml").string()).name, "mine");
  EXPECT_THROW(find_suite((folder.path() / "other.yaml").string()), DataError);
}

TEST(Suites, ExperimentsAreSelected) {
  Suite suite = techniques();
  select_experiments(suite, {"baseline", "bf16", "flash_attn"}, {"bf16"});
  EXPECT_EQ(names_in(suite), (std::vector<std::string>{"baseline", "flash_attn"}));
  EXPECT_PRED2(contains, message_of<ConfigError>([&] {
                 select_experiments(suite, {"baseline"}, {"baseline"});
               }),
               "none left by --only and --skip");
}

TEST(Suites, SizesAreNetworksTimesBudgets) {
  Suite suite = find_suite("sizes");
  suite.models = {"tiny", "folder/of/mine/"};
  suite.budgets = {"1GiB", "90%"};
  suite.micro_batches = {};
  expand_sizes(suite);
  EXPECT_EQ(names_in(suite),
            (std::vector<std::string>{"tiny_1GiB", "tiny_90-", "mine_1GiB", "mine_90-"}));
  EXPECT_EQ(suite.experiments[2].model, "folder/of/mine/");
  EXPECT_EQ(suite.experiments[2].memory, "1GiB");
  suite.budgets = {"1GiB", "1GiB"};
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { expand_sizes(suite); }),
               "two experiments named");
}

TEST(Suites, SizesByMicroBatchHaveASmallestBudget) {
  Suite suite = find_suite("sizes");
  EXPECT_EQ(suite.models,
            (std::vector<std::string>{"conformer-256", "conformer-192", "conformer-128"}));
  EXPECT_EQ(suite.micro_batches, (std::vector<int64_t>{8, 2, 1}));
  suite.models = {"tiny"};
  suite.budgets = {"1GiB"};
  suite.micro_batches = {4, 1};
  expand_sizes(suite);
  EXPECT_EQ(names_in(suite),
            (std::vector<std::string>{"tiny_1GiB", "tiny_micro_batch_4", "tiny_micro_batch_1",
                                      "tiny_smallest_budget"}));
  EXPECT_EQ(suite.experiments[1].micro_batch, 4);
  EXPECT_EQ(suite.experiments[1].memory, "");
  EXPECT_TRUE(suite.experiments[3].has_smallest_budget);
  EXPECT_FALSE(suite.experiments[2].has_smallest_budget);
  suite.micro_batches = {2, 2};
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { expand_sizes(suite); }),
               "two experiments named tiny_micro_batch_2");
  EXPECT_PRED2(contains, refusal("name: m\nkind: sizes\nmodels: [a]\nmicro_batches: [8, 0]\n"),
               "a number above 0");
  EXPECT_PRED2(contains, refusal("name: m\nkind: sizes\nmodels: [a]\nmicro_batches: 8\n"),
               "a list of numbers");
}

}  // namespace
}  // namespace sotto::lab
