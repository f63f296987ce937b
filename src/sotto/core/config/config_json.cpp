#include "sotto/core/config/config_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sotto/core/error.h"

namespace sotto {

namespace {

constexpr int kMaxJsonDepth = 32;

// Walks a text that is known to be valid JSON: it only has to find where values begin and end.
// nlohmann's parser does not report positions.
class JsonWalker {
 public:
  JsonWalker(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  ConfigNode take_value() {
    skip_blanks();
    switch (text_[at_]) {
      case '{': return take_map();
      case '[': return take_list();
      case '"': return take_string();
      default: return take_literal();
    }
  }

 private:
  void skip_blanks() {
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\n') {
        ++line_;
        line_start_ = at_ + 1;
      } else if (text_[at_] != ' ' && text_[at_] != '\t' && text_[at_] != '\r') {
        return;
      }
    }
  }

  // Skips `mark` and the blanks after it if it comes next.
  bool take(char mark) {
    skip_blanks();
    if (text_[at_] != mark) return false;
    ++at_;
    return true;
  }

  ConfigNode begin(ConfigNode::Kind kind) const {
    return {
        .kind = kind,
        .location = {
            .source = source_, .line = line_, .column = static_cast<int>(at_ - line_start_) + 1}};
  }

  void enter(const ConfigNode& node) {
    if (++depth_ > kMaxJsonDepth) {
      refuse(node.location,
             {.found = fmt::format("it is nested more than {} levels deep", kMaxJsonDepth)});
    }
    ++at_;
  }

  ConfigNode take_map() {
    ConfigNode map = begin(ConfigNode::Kind::kMap);
    enter(map);
    while (!take('}')) {
      const ConfigNode key = take_value();
      take(':');
      ConfigNode entry = take_value();
      entry.key = key.text;
      entry.key_location = key.location;
      add_entry(map, std::move(entry));
      take(',');
    }
    --depth_;
    return map;
  }

  ConfigNode take_list() {
    ConfigNode list = begin(ConfigNode::Kind::kList);
    enter(list);
    while (!take(']')) {
      list.children.push_back(take_value());
      take(',');
    }
    --depth_;
    return list;
  }

  ConfigNode take_string() {
    ConfigNode node = begin(ConfigNode::Kind::kQuoted);
    const size_t first = at_;
    for (++at_; text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
    }
    ++at_;
    node.text = nlohmann::json::parse(text_.substr(first, at_ - first)).get<std::string>();
    return node;
  }

  // Reads a number, true, false or null, and keeps its spelling.
  ConfigNode take_literal() {
    ConfigNode node = begin(ConfigNode::Kind::kPlain);
    const size_t end = std::min(text_.find_first_of(",]} \t\r\n", at_), text_.size());
    node.text = text_.substr(at_, end - at_);
    at_ = end;
    if (node.text == "null") return begin(ConfigNode::Kind::kEmpty);
    return node;
  }

  std::string_view text_;
  const std::string& source_;
  size_t at_ = 0;
  size_t line_start_ = 0;
  int line_ = 1;
  int depth_ = 0;
};

// Cuts "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ..." down to
// the part from "line 1" on; other messages to the part after the bracket.
std::string plain_message(const nlohmann::json::exception& error) {
  std::string message = error.what();
  for (const std::string_view start : {"] ", "parse error at "}) {
    const size_t at = message.find(start);
    if (at != std::string::npos) message.erase(0, at + start.size());
  }
  return message;
}

nlohmann::ordered_json to_json(const ConfigNode& node) {
  nlohmann::ordered_json json;
  switch (node.kind) {
    case ConfigNode::Kind::kEmpty: break;
    case ConfigNode::Kind::kPlain: json = nlohmann::ordered_json::parse(node.text); break;
    case ConfigNode::Kind::kQuoted: json = node.text; break;
    case ConfigNode::Kind::kList:
      json = nlohmann::ordered_json::array();
      for (const ConfigNode& child : node.children) json.push_back(to_json(child));
      break;
    case ConfigNode::Kind::kMap:
      json = nlohmann::ordered_json::object();
      for (const ConfigNode& child : node.children) json[child.key] = to_json(child);
      break;
  }
  return json;
}

}  // namespace

ConfigNode parse_json(const std::string& text, const std::string& source) {
  try {
    [[maybe_unused]] const nlohmann::json checked = nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    refuse({.source = source}, {.found = plain_message(error), .expected = "valid JSON"});
  }
  // The parser skips a byte order mark, as it does at the start of a file.
  std::string_view content = text;
  if (content.starts_with("\xEF\xBB\xBF")) content.remove_prefix(3);
  return JsonWalker(content, source).take_value();
}

std::string format_json(const ConfigNode& map) {
  return to_json(map).dump(2) + "\n";
}

}  // namespace sotto
