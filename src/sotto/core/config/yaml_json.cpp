#include "sotto/core/config/yaml_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace sotto {

namespace {

bool is_any_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
}

template <class Number>
bool parse_whole(std::string_view text, Number& number) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  return code == std::errc() && end == text.data() + text.size();
}

nlohmann::json json_of_word(std::string_view text) {
  if (is_any_of(text, {"", "~", "null", "Null", "NULL"})) return nullptr;
  if (is_any_of(text, {"true", "True", "TRUE"})) return true;
  if (is_any_of(text, {"false", "False", "FALSE"})) return false;
  // "inf" and "nan" are words.
  if (text.find_first_not_of("0123456789+-.eE") == std::string_view::npos) {
    if (int64_t number = 0; parse_whole(text, number)) return number;
    if (double number = 0.0; parse_whole(text, number)) return number;
  }
  return text;
}

}  // namespace

nlohmann::json json_of_yaml(const ConfigNode& node) {
  switch (node.kind) {
    case ConfigNode::Kind::kEmpty: return nullptr;
    case ConfigNode::Kind::kPlain: return json_of_word(node.text);
    case ConfigNode::Kind::kQuoted: return node.text;
    case ConfigNode::Kind::kList: {
      nlohmann::json list = nlohmann::json::array();
      for (const ConfigNode& item : node.children) list.push_back(json_of_yaml(item));
      return list;
    }
    case ConfigNode::Kind::kMap: {
      nlohmann::json map = nlohmann::json::object();
      for (const ConfigNode& entry : node.children) map[entry.key] = json_of_yaml(entry);
      return map;
    }
  }
  return nullptr;
}

}  // namespace sotto
