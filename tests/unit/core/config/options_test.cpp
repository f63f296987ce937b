// What each kind of field takes and refuses, tried by overrides.
#include "sotto/core/config/options.h"

#include <gtest/gtest.h>

#include "sotto/core/config/config.h"
#include "support/thrown.h"
#include "unit/core/config/sample_options.h"

namespace sotto {
namespace {

using test::contains;
using test::message_of;

SampleOptions set(const std::string& text) {
  return read_overrides<SampleOptions>({text});
}

std::string option_refusal(const std::string& text) {
  return message_of<ConfigError>([&] { set(text); });
}

void expect_refused(const std::string& key, const std::vector<std::string>& values) {
  for (const std::string& value : values) {
    EXPECT_THROW(set(key + "=" + value), ConfigError) << key << "=" << value;
  }
}

TEST(Options, BooleansAreTrueAndFalse) {
  EXPECT_TRUE(set("deterministic=true").deterministic);
  EXPECT_FALSE(set("deterministic=false").deterministic);
  expect_refused("deterministic", {"yes", "no", "on", "True", "1", "\"true\"", "~", ""});
  EXPECT_EQ(option_refusal("deterministic=yes"),
            "reading --set deterministic=yes: 'deterministic' is 'yes'. Expected true or false.");
}

TEST(Options, IntegersArePlainDigits) {
  EXPECT_EQ(set("seed=0").seed, 0);
  EXPECT_EQ(set("seed=-12").seed, -12);
  EXPECT_EQ(set("seed=9223372036854775807").seed, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(set("seed=-9223372036854775808").seed, std::numeric_limits<int64_t>::min());
  expect_refused("seed", {"1e3", "1_000", "010", "-010", "0x10", "0o7", "+5", "12.0", "\"12\"",
                          "1 2", "9223372036854775808", "-9223372036854775809", "", "null", "[1]",
                          "{a: 1}", "-", ".5"});
}

TEST(Options, IntegersRespectTheirRange) {
  EXPECT_EQ(set("model.layers=1").model.layers, 1);
  EXPECT_EQ(set("model.layers=200").model.layers, 200);
  expect_refused("model.layers", {"0", "201", "-1"});
  EXPECT_PRED2(contains, option_refusal("model.layers=201"),
               "'layers' is '201'. Expected a whole number, from 1 to 200.");
  EXPECT_PRED2(contains, option_refusal("model.width=0"), "at least 1.");
}

TEST(Options, NumbersMayHaveFractionAndExponent) {
  EXPECT_EQ(set("rate=1e-4").rate, 1e-4);
  EXPECT_EQ(set("rate=.5").rate, 0.5);
  EXPECT_EQ(set("rate=3").rate, 3.0);
  EXPECT_EQ(set("rate=1E3").rate, 1000.0);
  expect_refused("rate", {"nan", ".nan", "inf", ".inf", "1e999", "010", "\"1\"", "1,5", "0x10",
                          "+1", "one", "1_0.0", ""});
}

TEST(Options, NumbersRespectOpenAndClosedBounds) {
  EXPECT_EQ(set("model.dropout=0").model.dropout, 0.0);
  expect_refused("model.dropout", {"1", "-0.1", "1.0"});
  expect_refused("rate", {"0", "-1"});
  EXPECT_PRED2(contains, option_refusal("model.dropout=1"), "at least 0 and below 1.");
  EXPECT_PRED2(contains, option_refusal("rate=0"), "a finite number, above 0.");
}

TEST(Options, TextIsTakenAsWritten) {
  EXPECT_EQ(set("name=1.10").name, "1.10");
  EXPECT_EQ(set("name=010").name, "010");
  EXPECT_EQ(set("name=yes").name, "yes");
  EXPECT_EQ(set("name=\"null\"").name, "null");
  EXPECT_EQ(set("name=\"\"").name, "");
  EXPECT_EQ(set("name=a=b").name, "a=b");
  EXPECT_EQ(set("out=/data/a b").out, "/data/a b");
  expect_refused("name", {"", "~", "[a]", "{a: b}"});
  expect_refused("out", {"", "[a]"});
}

TEST(Options, SizesAndDurationsNeedAUnit) {
  EXPECT_EQ(set("pinned=512MiB").pinned_bytes, int64_t{512} << 20);
  EXPECT_EQ(set("pinned=\"2GB\"").pinned_bytes, 2'000'000'000);
  EXPECT_EQ(set("memory=90%").memory, MemorySize::parse("90%"));
  EXPECT_EQ(set("save_every=1h30min").save_every_s, 5400);
  expect_refused("pinned", {"8", "2TiB", "-1GiB", "auto", "[1GiB]"});
  expect_refused("memory", {"8", "0GiB", "120%", "all"});
  expect_refused("save_every", {"90", "0.5s", "1x"});
  EXPECT_PRED2(contains, option_refusal("pinned=2TiB"), "at most 1TiB.");
  EXPECT_PRED2(contains, option_refusal("save_every=500ms"), "at least 1s.");
}

TEST(Options, ChoicesAreTheirNames) {
  EXPECT_EQ(set("device=cuda").device, "cuda");
  EXPECT_EQ(set("model.activation=swish").model.activation, Activation::kSwish);
  expect_refused("device", {"gpu", "CPU", "", "[cpu]"});
  EXPECT_PRED2(contains, option_refusal("device=gpu"),
               "'device' is 'gpu'. Expected one of cpu, cuda.");
  EXPECT_PRED2(contains, option_refusal("model.activation=tanh"), "one of gelu, relu, swish.");
}

TEST(Options, ListsReplaceTheDefaultAndCheckEachItem) {
  EXPECT_EQ(set("bands=[1, 2, 3]").bands, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(set("bands=[]").bands, std::vector<int64_t>{});
  EXPECT_EQ(set("betas=[0.5]").betas, std::vector<double>{0.5});
  EXPECT_EQ(set("train=[a.jsonl, 12]").train, (std::vector<std::string>{"a.jsonl", "12"}));
  EXPECT_EQ(set("tiers=[block, none]").tiers, (std::vector<std::string>{"block", "none"}));
  expect_refused("bands", {"1", "[1, x]", "[1, , 2]", "[-1]", "[[1]]", "{a: 1}"});
  expect_refused("betas", {"[1]", "0.9"});
  expect_refused("tiers", {"[none, all]", "none"});
  EXPECT_PRED2(contains, option_refusal("tiers=[none, all]"), "an item of 'tiers' is 'all'.");
  EXPECT_PRED2(contains, option_refusal("bands=1"),
               "'bands' is '1'. Expected a list such as [a, b]");
}

TEST(Options, EnumNamesAndValues) {
  EXPECT_EQ(name_of(Activation::kRelu, kActivations), "relu");
  EXPECT_EQ(value_of("relu", kActivations), Activation::kRelu);
  EXPECT_THROW(name_of(static_cast<Activation>(9), kActivations), InternalError);
}

TEST(Options, DuplicateFieldsAreInternalErrors) {
  struct Twice {
    bool a = false;
    void visit(OptionVisitor& visitor) {
      visitor.value("a", a, "");
      visitor.value("a", a, "");
    }
  };
  EXPECT_THROW(read_overrides<Twice>({}), InternalError);
}

TEST(Options, ListHasDottedKeys) {
  const std::vector<OptionInfo> list = list_options(SampleOptions{});
  ASSERT_EQ(list.size(), 18U);
  EXPECT_EQ(list[2].key, "device");
  EXPECT_EQ(list[2].expected, "one of cpu, cuda");
  EXPECT_EQ(list[2].help, "where it computes");
  EXPECT_EQ(list[2].value, "cpu");
  EXPECT_EQ(list[10].value, "[0.9, 0.98]");
  EXPECT_EQ(list[13].key, "model.layers");
  EXPECT_EQ(list[13].value, "12");
}

}  // namespace
}  // namespace sotto
