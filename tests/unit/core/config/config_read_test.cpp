// Files and overrides into structs: places of errors, unknown keys, versions, validation.
#include <gtest/gtest.h>

#include "sotto/core/config/config.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "unit/core/config/sample_options.h"

namespace sotto {
namespace {

using test::contains;
using test::message_of;
using test::TempFolder;

// Reads `text` from a file of that name.
SampleOptions read_file(const std::string& name, const std::string& text,
                        const std::vector<std::string>& overrides = {}) {
  const TempFolder folder;
  return read_config<SampleOptions>(folder.write(name, text), overrides);
}

std::string file_refusal(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return message_of<ConfigError>([&] { read_file("a.yaml", text, overrides); });
}

TEST(ReadConfig, YamlAndJsonAreEquivalent) {
  SampleOptions expected;
  expected.name = "second";
  expected.memory = MemorySize::parse("8GiB");
  expected.deterministic = true;
  expected.model.layers = 3;
  expected.bands = {1, 2};
  EXPECT_EQ(read_file("a.yaml",
                      "name: second\nmemory: 8GiB\ndeterministic: true\nbands: [1, 2]\n"
                      "model:\n  layers: 3\n"),
            expected);
  EXPECT_EQ(read_file("a.json",
                      "{\n\t\"name\": \"second\",\n\t\"memory\": \"8GiB\",\n\t\"deterministic\": "
                      "true,\n\t\"bands\": [1, 2],\n\t\"model\": {\"layers\": 3}\n}\n"),
            expected);
}

TEST(ReadConfig, EmptyConfigGivesDefaults) {
  EXPECT_EQ(read_file("a.yaml", "{}\n"), SampleOptions{});
  EXPECT_EQ(read_file("a.yaml", "model: {}\n"), SampleOptions{});
  EXPECT_EQ(read_overrides<SampleOptions>({}), SampleOptions{});
}

TEST(ReadConfig, ErrorsNameFileLineAndColumn) {
  const TempFolder folder;
  const auto file = folder.write("a.yaml", "name: x\nmodel:\n  layers: many\n");
  EXPECT_EQ(message_of<ConfigError>([&] { read_config<SampleOptions>(file); }),
            fmt::format("reading {}: line 3, column 11: 'layers' is 'many'. Expected a whole "
                        "number, from 1 to 200.",
                        file.string()));
  const auto json = folder.write("a.json", "{\n\t\"bands\": [1,\n\t\t\"2\"]}");
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { read_config<SampleOptions>(json); }),
               "line 3, column 3: an item of 'bands' is the quoted text \"2\".");
}

TEST(ReadConfig, UnknownKeysSuggestTheNearest) {
  EXPECT_PRED2(contains, file_refusal("model:\n  lyers: 3\n"),
               "line 2, column 3: unknown key 'lyers' in 'model'. Did you mean 'layers'?");
  EXPECT_PRED2(contains, file_refusal("sede: 3\n"),
               "line 1, column 1: unknown key 'sede'. Did you mean 'seed'?");
  EXPECT_PRED2(contains, file_refusal("format_versoin: 1\n"), "Did you mean 'format_version'?");
}

TEST(ReadConfig, DissimilarKeysListAllKnown) {
  EXPECT_PRED2(contains, file_refusal("model:\n  colour: red\n"),
               "unknown key 'colour' in 'model'. Expected one of layers, width, heads, dropout, "
               "activation.");
  EXPECT_PRED2(contains, file_refusal("x: 3\n"), "Expected one of format_version, name, out,");
}

TEST(ReadConfig, KeysWithoutValueAreRefused) {
  EXPECT_PRED2(contains, file_refusal("name: x\nseed:\nrate: 1\n"),
               "line 2, column 1: 'seed' is without a value.");
  EXPECT_PRED2(contains, file_refusal("model:\n"), "line 1, column 1: 'model' is without a value.");
  EXPECT_PRED2(contains, file_refusal("name: ~\n"), "'name' is without a value. Expected text.");
}

TEST(ReadConfig, GroupsMustBeMaps) {
  EXPECT_PRED2(contains, file_refusal("model: 3\n"), "line 1, column 8: 'model' is '3'. Expected");
  EXPECT_PRED2(contains, file_refusal("model: [1]\n"), "'model' is a list.");
}

TEST(ReadConfig, TopLevelMustBeAMap) {
  EXPECT_PRED2(contains, file_refusal("[1, 2]\n"), "line 1, column 1: the top level is a list.");
  EXPECT_PRED2(contains, file_refusal("hello\n"), "the top level is 'hello'.");
  EXPECT_THROW(read_file("a.json", "12"), ConfigError);
}

TEST(ReadConfig, NonTextFilesAreDataErrors) {
  const TempFolder folder;
  EXPECT_THROW(read_config<SampleOptions>(folder.path() / "missing.yaml"), DataError);
  EXPECT_THROW(read_config<SampleOptions>(folder.path()), DataError);
  EXPECT_THROW(read_file("a.yaml", ""), DataError);
  EXPECT_THROW(read_file("a.json", ""), DataError);
  EXPECT_THROW(read_file("a.yaml", "# nothing but a comment\n"), DataError);
  EXPECT_THROW(read_file("a.yaml", std::string("seed: 1\0", 8)), DataError);
  EXPECT_THROW(read_file("a.yaml", "name: \xFF\n"), DataError);
}

TEST(ReadConfig, ValidationErrorsPointToTheirGroup) {
  const std::string message = file_refusal("seed: 1\nmodel:\n  heads: 5\n");
  EXPECT_PRED2(contains, message,
               "line 3, column 3: checking the model: width 64 is no multiple of heads 5.");
  EXPECT_FALSE(contains(message, "..")) << message;
}

TEST(ReadConfig, ValidationCoversDefaultGroups) {
  struct Strict {
    int64_t a = 1;
    void visit(OptionVisitor& visitor) { visitor.value("a", a, "help"); }
    void validate() const { throw ConfigError({.attempted = "checking", .found = "never right"}); }
  };
  struct Outer {
    Strict inner;
    void visit(OptionVisitor& visitor) { visitor.group("inner", inner, "help"); }
  };
  struct Outmost {
    Outer outer;
    void visit(OptionVisitor& visitor) { visitor.group("outer", outer, "help"); }
  };
  EXPECT_THROW(read_overrides<Outer>({}), ConfigError);
  EXPECT_THROW(read_overrides<Outmost>({}), ConfigError);
  EXPECT_THROW(read_overrides<Strict>({}), ConfigError);
}

TEST(FormatVersion, IsAcceptedIfKnownAndRefusedIfNewer) {
  EXPECT_EQ(read_file("a.yaml", "format_version: 1\nseed: 9\n").seed, 9);
  const std::string message =
      message_of<DataError>([&] { read_file("a.yaml", "format_version: 2\nfuture: 9\n"); });
  EXPECT_PRED2(contains, message,
               "its format_version is 2. Expected 1 or less. A newer sotto wrote");
  EXPECT_PRED2(contains, file_refusal("format_version: 0\n"), "'format_version' is '0'");
  EXPECT_PRED2(contains, file_refusal("format_version: one\n"), "'format_version' is 'one'");
}

TEST(Overrides, OverrideTheFileInOrder) {
  const SampleOptions options =
      read_file("a.yaml", "seed: 1\nmodel: {layers: 3, heads: 2}\n",
                {"model.layers=4", "model.layers=5", "bands=[7]", "name=\"a: b\""});
  EXPECT_EQ(options.seed, 1);
  EXPECT_EQ(options.model.layers, 5);
  EXPECT_EQ(options.model.heads, 2);
  EXPECT_EQ(options.bands, std::vector<int64_t>{7});
  EXPECT_EQ(options.name, "a: b");
}

TEST(Overrides, WholeGroupIsReplaced) {
  const SampleOptions options =
      read_file("a.yaml", "model: {layers: 3}\n", {"model={heads: 2}", "model.width=8"});
  EXPECT_EQ(options.model.layers, SampleModel{}.layers);
  EXPECT_EQ(options.model.heads, 2);
  EXPECT_EQ(options.model.width, 8);
}

TEST(Overrides, CreateMissingGroups) {
  EXPECT_EQ(read_file("a.yaml", "seed: 1\n", {"model.layers=4"}).model.layers, 4);
  EXPECT_EQ(read_overrides<SampleOptions>({"model.layers=4"}).model.layers, 4);
}

TEST(Overrides, ErrorsNameTheOverrideInsteadOfALine) {
  const auto refusal = [](const std::string& text) {
    return file_refusal("seed: 1\nmodel: {layers: 3}\n", {text});
  };
  EXPECT_PRED2(
      contains, refusal("model.lyers=4"),
      "reading --set model.lyers=4: unknown key 'lyers' in 'model'. Did you mean 'layers'");
  EXPECT_PRED2(contains, refusal("bands=[1, x]"), "reading --set bands=[1, x]: an item of 'bands'");
  EXPECT_PRED2(contains, refusal("name=[1"), "reading --set name=[1: end of sequence");
  EXPECT_PRED2(contains, refusal("name=*.wav"), "Quote text that contains");
  EXPECT_PRED2(contains, refusal("seed="), "reading --set seed=: 'seed' is without a value");
  EXPECT_PRED2(contains, refusal("seed.low=1"), "'seed' is '1', so it has no key 'low'");
  EXPECT_PRED2(contains, refusal("model={heads: 1, heads: 2}"), "duplicate key 'heads'.");
  EXPECT_PRED2(contains, refusal("name=\xFF"), "it is not UTF-8");
  EXPECT_FALSE(contains(refusal("name=[1"), "line "));
}

TEST(Overrides, MustBeAssignments) {
  EXPECT_PRED2(contains, file_refusal("seed: 1\n", {"seed"}), "--set seed: it has no '='");
  for (const char* text : {"=1", "model.=1", ".layers=1", "model..layers=1", ""}) {
    EXPECT_THROW(read_overrides<SampleOptions>({text}), ConfigError) << text;
  }
}

}  // namespace
}  // namespace sotto
