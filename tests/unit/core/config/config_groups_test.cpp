// Lists of groups of keys: read, written, and refused with their location.
#include <gtest/gtest.h>

#include "sotto/core/config/config.h"
#include "sotto/core/config/config_json.h"
#include "sotto/core/config/config_yaml.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "unit/core/config/sample_options.h"

namespace sotto {
namespace {

using test::contains;
using test::message_of;

// Even numbers, with a text form of its own.
struct Even {
  int64_t half = 1;

  static Even parse(const std::string& text) {
    const int64_t value = std::stoll("0" + text);
    if (value % 2 != 0) throw ConfigError({.attempted = "reading", .found = text});
    return {.half = value / 2};
  }
  std::string to_string() const { return std::to_string(2 * half); }
  friend bool operator==(const Even&, const Even&) = default;
};

struct Part {
  int64_t length = 3;
  Even even;
  SampleModel model;

  void visit(OptionVisitor& visitor) {
    visitor.value("length", length, "of the part", {.min = 1});
    visitor.parsed("even", even, "an even number", "a number such as 2");
    visitor.group("model", model, "the network");
  }
  void validate() const {
    if (length == 13) throw ConfigError({.attempted = "checking a part", .found = "length 13"});
  }
  friend bool operator==(const Part&, const Part&) = default;
};

struct Whole {
  std::string name = "whole";
  int64_t usual = 3;
  std::vector<Part> parts;

  void visit(OptionVisitor& visitor) {
    visitor.value("name", name, "of the whole");
    visitor.value("usual", usual, "length of parts that have none");
    visitor.groups("parts", parts, "what it consists of",
                   Part{.length = usual, .even = {}, .model = {}});
  }
  friend bool operator==(const Whole&, const Whole&) = default;
};

Whole read(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const test::TempFolder folder;
  return read_config<Whole>(folder.write("a.yaml", text), overrides);
}

std::string refusal(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return message_of<ConfigError>([&] { read(text, overrides); });
}

TEST(ConfigGroups, AreReadInOrderWithDefaultsOfTheirOwn) {
  const Whole whole = read(
      "parts:\n"
      "  - length: 5\n"
      "    model: {layers: 2}\n"
      "  - {even: 8}\n"
      "usual: 7\n");
  ASSERT_EQ(whole.parts.size(), 2u);
  EXPECT_EQ(whole.parts[0].length, 5);
  EXPECT_EQ(whole.parts[0].model.layers, 2);
  EXPECT_EQ(whole.parts[0].even.half, 1);
  // Whatever the order of the keys in the file.
  EXPECT_EQ(whole.parts[1].length, 7);
  EXPECT_EQ(whole.parts[1].even.half, 4);
  EXPECT_EQ(whole.parts[1].model, SampleModel{});
}

TEST(ConfigGroups, OverridesReplaceTheWholeList) {
  const std::string text = "parts: [{length: 5}, {length: 6}]\n";
  EXPECT_EQ(read(text, {"parts=[{length: 9}]"}).parts.size(), 1u);
  EXPECT_EQ(read(text, {"parts=[]"}).parts.size(), 0u);
  EXPECT_PRED2(contains, refusal(text, {"parts.0.length=9"}), "'parts' is a list");
}

TEST(ConfigGroups, MissingListKeepsWhatIsThere) {
  Whole whole = read("parts: [{length: 5}]\n");
  read_group(load_overrides({"name=other"}), as_group(whole));
  EXPECT_EQ(whole.parts.size(), 1u);
}

TEST(ConfigGroups, ErrorsHaveLineAndColumn) {
  EXPECT_PRED2(contains, refusal("parts: 5\n"),
               "line 1, column 8: 'parts' is '5'. Expected a list");
  EXPECT_PRED2(contains, refusal("parts: {length: 5}\n"), "'parts' is a group of keys.");
  EXPECT_PRED2(contains, refusal("parts:\n  - 100k\n"),
               "line 2, column 5: an item of 'parts' is '100k'.");
  EXPECT_PRED2(contains, refusal("parts:\n  - {length: 1}\n  - {lenght: 5}\n"),
               "line 3, column 6: unknown key 'lenght' in 'parts'. Did you mean 'length'?");
  EXPECT_PRED2(contains, refusal("parts:\n  - length: 0\n"),
               "line 2, column 13: 'length' is '0'. Expected a whole number, at least 1.");
  EXPECT_PRED2(contains, refusal("parts:\n  - even: 3\n"),
               "line 2, column 11: 'even' is '3'. Expected a number such as 2.");
  EXPECT_PRED2(contains, refusal("parts:\n  - even: [2]\n"), "'even' is a list.");
  EXPECT_PRED2(contains, refusal("parts:\n  - length: 4\n  - length: 13\n"),
               "line 3, column 5: checking a part: length 13.");
  EXPECT_PRED2(contains, refusal("parts:\n  - model: {width: 3}\n"), "line 2, column 12: checking");
}

TEST(ConfigGroups, SurviveWriting) {
  Whole whole;
  whole.parts = {Part{.length = 2, .even = {.half = 5}, .model = {}}, Part{}};
  whole.parts[1].model.dropout = 0.25;
  const std::string yaml = format_yaml(write_options(whole));
  EXPECT_EQ(read_options<Whole>(parse_yaml(yaml, "a.yaml")), whole) << yaml;
  EXPECT_PRED2(contains, yaml, "# what it consists of\nparts:\n  - length: 2\n    even: ");
  const std::string json = format_json(write_options(whole));
  EXPECT_EQ(read_options<Whole>(parse_json(json, "a.json")), whole) << json;
}

// Files of before there were such lists do not change.
TEST(ConfigGroups, AnEmptyListIsNotWrittenButListed) {
  EXPECT_FALSE(contains(format_yaml(write_options(Whole{})), "parts:"));
  EXPECT_EQ(list_options(Whole{}).back().key, "parts");
  EXPECT_EQ(list_options(Whole{}).back().value, "[]");
  Whole whole;
  whole.parts.resize(1);
  const std::string value = list_options(whole).back().value;
  EXPECT_PRED2(contains, value, "[{length: 3, even: ");
  EXPECT_EQ(read_overrides<Whole>({"parts=" + value}), whole);
}

}  // namespace
}  // namespace sotto
