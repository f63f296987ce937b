// The two notations: what each reads into the tree, where it says things stand, what it refuses.
#include <gtest/gtest.h>

#include "sotto/core/config/config_json.h"
#include "sotto/core/config/config_yaml.h"
#include "sotto/core/error.h"
#include "support/thrown.h"

namespace sotto {
namespace {

using test::contains;
using test::message_of;

using Kind = ConfigNode::Kind;

// "line:column" of a node's value and of its key.
std::string location_of(const ConfigNode& node) {
  return fmt::format("{}:{} key {}:{}", node.location.line, node.location.column,
                     node.key_location.line, node.key_location.column);
}

std::string yaml_refusal(const std::string& text) {
  return message_of<ConfigError>([&] { parse_yaml(text, "a.yaml"); });
}

std::string json_refusal(const std::string& text) {
  return message_of<ConfigError>([&] { parse_json(text, "a.json"); });
}

TEST(ParseYaml, KeepsKindsAndLocations) {
  const ConfigNode root =
      parse_yaml("memory: 8GiB\nname: \"12\"\nmodel:\n  layers: 3\nsizes: [1, 2]\n", "a.yaml");
  ASSERT_EQ(root.children.size(), 4U);
  EXPECT_EQ(root.find("memory")->kind, Kind::kPlain);
  EXPECT_EQ(root.find("memory")->text, "8GiB");
  EXPECT_EQ(root.find("name")->kind, Kind::kQuoted);
  EXPECT_EQ(root.find("name")->text, "12");
  EXPECT_EQ(location_of(*root.find("model")->find("layers")), "4:11 key 4:3");
  EXPECT_EQ(root.find("sizes")->children.at(1).text, "2");
  EXPECT_EQ(root.find("sizes")->children.at(1).location.column, 12);
  EXPECT_EQ(root.find("layers"), nullptr);
}

TEST(ParseYaml, MissingValueHasTheLocationOfItsKey) {
  const ConfigNode root = parse_yaml("a: 1\nb:\nc: ~\n", "a.yaml");
  EXPECT_EQ(root.find("b")->kind, Kind::kEmpty);
  EXPECT_EQ(location_of(*root.find("b")), "2:1 key 2:1");
  EXPECT_EQ(root.find("c")->kind, Kind::kEmpty);
}

TEST(ParseYaml, IsEmptyWithoutADocument) {
  EXPECT_EQ(parse_yaml("", "a.yaml").kind, Kind::kEmpty);
  EXPECT_EQ(parse_yaml("# a comment\n\n", "a.yaml").kind, Kind::kEmpty);
}

TEST(ParseYaml, RefusesUnsupportedYaml) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a: 1\nb: 2\na: 3\n",
       "line 3, column 1: duplicate key 'a'; the first "
       "is in line 1"},
      {"a: &x 1\nb: *x\n", "line 2, column 4: aliases"},
      {"a: !!str 1\n", "line 1, column 4: tags"},
      {"a: 1\n---\nb: 2\n", "line 2, column 1: a second document"},
      {"a: 1\n? [b, c]\n: 2\n", "line 2, column 3: a key is not a word"},
      {": 2\n", "line 1, column 1: a key is not a word"},
      {"a: b: c\n", "line 1, column 5: illegal map value. Expected valid YAML"},
      {"a: [1, 2\n", "Expected valid YAML"},
      {"a: 'x\nb: 2\n", "line 1, column 4: the quote ' is never closed"},
      {"a: \"x\\\"\nb: 2\n", "line 1, column 4: the quote \" is never closed"},
      {"a: " + std::string(40, '[') + std::string(40, ']'), "nested more than 32 levels deep"},
  };
  for (const auto& [text, part] : cases) {
    const std::string message = yaml_refusal(text);
    EXPECT_PRED2(contains, message, part);
    EXPECT_PRED2(contains, message, "reading a.yaml: line ");
  }
}

TEST(ParseYaml, AcceptsClosedQuotes) {
  EXPECT_EQ(parse_yaml("a: 'it''s'\n", "a.yaml").find("a")->text, "it's");
  EXPECT_EQ(parse_yaml("a: \"x\\\"y\"\n", "a.yaml").find("a")->text, "x\"y");
  EXPECT_EQ(parse_yaml("a: |\n  it's\n  two\n", "a.yaml").find("a")->text, "it's\ntwo\n");
}

TEST(ParseYamlValue, GivesAllNodesTheSameLocation) {
  const ConfigNode list = parse_yaml_value("[1, 2]", {.source = "--set a=[1, 2]"});
  EXPECT_EQ(list.children.at(1).location.source, "--set a=[1, 2]");
  EXPECT_EQ(list.children.at(1).location.line, 0);
}

TEST(ParseJson, KeepsKindsAndLocations) {
  const ConfigNode root = parse_json(
      "{\n\t\"memory\": \"8GiB\",\n\t\"model\": {\"layers\": 3, \"on\":true},\n"
      "\t\"sizes\": [1,\n\t\t2e1],\r\n\t\"none\": null\n}\n",
      "a.json");
  EXPECT_EQ(root.find("memory")->kind, Kind::kQuoted);
  EXPECT_EQ(location_of(*root.find("memory")), "2:12 key 2:2");
  EXPECT_EQ(root.find("model")->find("layers")->kind, Kind::kPlain);
  EXPECT_EQ(location_of(*root.find("model")->find("layers")), "3:22 key 3:12");
  EXPECT_EQ(root.find("model")->find("on")->text, "true");
  EXPECT_EQ(root.find("sizes")->children.at(1).text, "2e1");
  EXPECT_EQ(root.find("sizes")->children.at(1).location.line, 5);
  EXPECT_EQ(root.find("none")->kind, Kind::kEmpty);
}

TEST(ParseJson, ReadsEscapesWithSurrogatePairs) {
  const ConfigNode root =
      parse_json(R"({"a": "\ud83d\ude00 \u00e9 \/ \" \\ }", "\u0062": "x"})", "a.json");
  EXPECT_EQ(root.find("a")->text, "\xF0\x9F\x98\x80 \xC3\xA9 / \" \\ }");
  EXPECT_EQ(root.find("b")->text, "x");
}

TEST(ParseJson, AcceptsEmptyMapsAndLists) {
  const ConfigNode root = parse_json(R"( { "a" : { } , "b" : [ ] } )", "a.json");
  EXPECT_EQ(root.find("a")->kind, Kind::kMap);
  EXPECT_EQ(root.find("b")->kind, Kind::kList);
  EXPECT_EQ(parse_json("12", "a.json").text, "12");
  // After a byte order mark, names and texts are what they are without it.
  const ConfigNode marked = parse_json("\xEF\xBB\xBF{\"\": \"x y\"}", "a.json");
  ASSERT_EQ(marked.children.size(), 1u);
  EXPECT_EQ(marked.children.front().text, "x y");
}

TEST(ParseJson, RefusesInvalidJson) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{\n  \"a\": 1,\n}\n", "reading a.json: line 3, column 1: syntax error"},
      {"{\"a\": 1} x", "line 1, column 10: syntax error"},
      {"{\"a\": \"\\ud83d\"}", "surrogate"},
      {"{\"a\": 010}", "syntax error"},
      {"{\"a\": nan}", "syntax error"},
      {"{\"a\": 1e999}", "number overflow"},
      {"{\"a\": 1,\n\"a\": 2}",
       "line 2, column 1: duplicate key 'a'; the "
       "first is in line 1"},
      {std::string(100000, '['), "syntax error"},
      {std::string(40, '[') + std::string(40, ']'), "line 1, column 33: it is nested more than 32"},
  };
  for (const auto& [text, part] : cases) EXPECT_PRED2(contains, json_refusal(text), part);
}

}  // namespace
}  // namespace sotto
