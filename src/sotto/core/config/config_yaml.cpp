#include "sotto/core/config/config_yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <vector>

#include "sotto/core/error.h"

namespace sotto {

namespace {

constexpr size_t kMaxYamlDepth = 32;
constexpr size_t kMaxColumns = 100;

// Builds the tree from the events of yaml-cpp's parser.
class TreeBuilder : public YAML::EventHandler {
 public:
  // Counts lines relative to `start`, unless it is a location without lines.
  TreeBuilder(const std::string& text, const ConfigLocation& start) : text_(text), start_(start) {}

  // Throws ConfigError.
  ConfigNode build() {
    try {
      std::istringstream stream(text_);
      YAML::Parser parser(stream);
      while (parser.HandleNextDocument(*this)) {
      }
    } catch (const YAML::Exception& error) {
      refuse(location_of(error.mark), {.found = error.msg,
                                       .expected = "valid YAML",
                                       .hint = "Quote text that contains special characters."});
    }
    return std::move(root_);
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) {
      refuse(location_of(mark), {.found = "a second document", .expected = "one document"});
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    add({.location = location_of(mark)});
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(location_of(mark), {.found = "aliases (*name) are not supported",
                               .expected = "the value itself",
                               .hint = "Put text that begins with * in quotes."});
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& value) override {
    refuse_tag(mark, tag);
    // yaml-cpp's tag of an untagged scalar: "!" if it is quoted or a block.
    const bool quoted = tag == "!";
    if (quoted) refuse_open_quote(mark);
    add({.kind = quoted ? ConfigNode::Kind::kQuoted : ConfigNode::Kind::kPlain,
         .text = value,
         .location = location_of(mark)});
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, ConfigNode::Kind::kList);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, ConfigNode::Kind::kMap);
  }
  void OnMapEnd() override { close(); }

 private:
  // A list or map whose end has not been reached; for a map also the key that waits for its value.
  struct Frame {
    ConfigNode node;
    std::optional<ConfigNode> key;
  };

  ConfigLocation location_of(const YAML::Mark& mark) const {
    if (start_.line == 0) return start_;
    return {.source = start_.source, .line = mark.line + 1, .column = mark.column + 1};
  }

  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (tag.empty() || tag == "?" || tag == "!") return;
    refuse(location_of(mark), {.found = "tags (!name) are not supported",
                               .expected = "the value itself",
                               .hint = "Put text that begins with ! in quotes."});
  }

  // yaml-cpp treats the end of the file as the missing quote, and everything before it as text.
  void refuse_open_quote(const YAML::Mark& mark) const {
    const auto first = static_cast<size_t>(mark.pos);
    if (first >= text_.size() || (text_[first] != '"' && text_[first] != '\'')) return;
    const char quote = text_[first];
    for (size_t at = first + 1; at < text_.size(); ++at) {
      if (quote == '"' && text_[at] == '\\') {
        ++at;
      } else if (text_[at] == quote) {
        return;
      }
    }
    refuse(location_of(mark), {.found = fmt::format("the quote {} is never closed", quote)});
  }

  void open(const YAML::Mark& mark, const std::string& tag, ConfigNode::Kind kind) {
    refuse_tag(mark, tag);
    if (frames_.size() == kMaxYamlDepth) {
      refuse(location_of(mark),
             {.found = fmt::format("it is nested more than {} levels deep", kMaxYamlDepth)});
    }
    frames_.push_back({.node = {.kind = kind, .location = location_of(mark)}, .key = std::nullopt});
  }

  void close() {
    ConfigNode node = std::move(frames_.back().node);
    frames_.pop_back();
    add(std::move(node));
  }

  void add(ConfigNode node) {
    if (frames_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& frame = frames_.back();
    if (frame.node.kind == ConfigNode::Kind::kList) {
      frame.node.children.push_back(std::move(node));
    } else if (!frame.key) {
      if (!node.is_scalar())
        refuse(node.location, {.found = "a key is not a word", .expected = "key: value"});
      frame.key = std::move(node);
    } else {
      node.key = frame.key->text;
      node.key_location = frame.key->location;
      // yaml-cpp gives a missing value the location of whatever comes next.
      if (node.kind == ConfigNode::Kind::kEmpty) node.location = node.key_location;
      frame.key.reset();
      add_entry(frame.node, std::move(node));
    }
  }

  const std::string& text_;
  const ConfigLocation start_;
  ConfigNode root_;
  std::vector<Frame> frames_;
  int documents_ = 0;
};

// Returns whether `text` is digits and a unit, as in 8GiB, 90% or 0.5s, which is not a number in
// any YAML version.
bool is_number_with_unit(std::string_view text) {
  const size_t unit = text.find_first_not_of("0123456789.");
  if (unit == 0 || unit == std::string_view::npos) return false;
  if (text.substr(unit) == "%") return true;
  return text.find_first_not_of("BKMGTidhkmns", unit) == std::string_view::npos;
}

// Returns whether text can be written without quotes and is text to every YAML reader, including
// those of version 1.1.
bool is_bare_word(const std::string& text) {
  constexpr std::array kReserved = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"};
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  if (is_number_with_unit(text)) return true;
  if (text.empty() || (kLetters.find(text[0]) == std::string_view::npos && text[0] != '/')) {
    return false;
  }
  const auto is_safe = [&](char letter) {
    return kLetters.find(letter) != std::string_view::npos ||
           std::string_view("0123456789_-./").find(letter) != std::string_view::npos;
  };
  if (!std::all_of(text.begin(), text.end(), is_safe)) return false;
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return std::find(kReserved.begin(), kReserved.end(), lower) == kReserved.end();
}

// A JSON string is a YAML string in double quotes.
std::string format_scalar(const ConfigNode& node) {
  if (node.kind == ConfigNode::Kind::kPlain || is_bare_word(node.text)) return node.text;
  return nlohmann::json(node.text).dump();
}

// Breaks a comment into lines that begin with the indent and "# ".
std::string format_comment(const std::string& comment, size_t indent) {
  const std::string start = std::string(indent, ' ') + "#";
  std::string result;
  std::string line = start;
  std::istringstream words(comment);
  for (std::string word; words >> word;) {
    if (line.size() > start.size() && line.size() + 1 + word.size() > kMaxColumns) {
      result += line + "\n";
      line = start;
    }
    line += " " + word;
  }
  return line.size() > start.size() ? result + line + "\n" : result;
}

ConfigNode without_comments(ConfigNode node) {
  node.comment.clear();
  for (ConfigNode& child : node.children) child = without_comments(std::move(child));
  return node;
}

std::string format_entries(const ConfigNode& map, size_t indent);

// Formats groups of keys without comments, each item's first key after its dash.
std::string format_groups(const ConfigNode& list, size_t indent) {
  std::string lines = "\n";
  for (const ConfigNode& item : list.children) {
    std::string entries = format_entries(without_comments(item), indent + 4);
    entries[indent + 2] = '-';
    lines += entries;
  }
  return lines;
}

// Formats a list on one line if it fits, otherwise one item per line.
std::string format_list(const ConfigNode& list, size_t indent) {
  const auto is_group = [](const ConfigNode& item) {
    return item.kind == ConfigNode::Kind::kMap && !item.children.empty();
  };
  if (!list.children.empty() && std::ranges::all_of(list.children, is_group))
    return format_groups(list, indent);
  const std::string line = format_yaml_value(list);
  if (indent + list.key.size() + 2 + line.size() <= kMaxColumns) return " " + line;
  std::string lines;
  for (const ConfigNode& item : list.children) {
    lines += fmt::format("\n{:{}}- {}", "", indent + 2, format_yaml_value(item));
  }
  return lines;
}

std::string format_entries(const ConfigNode& map, size_t indent) {
  std::string result;
  for (const ConfigNode& entry : map.children) {
    result += format_comment(entry.comment, indent);
    result += fmt::format("{:{}}{}:", "", indent, entry.key);
    switch (entry.kind) {
      case ConfigNode::Kind::kEmpty: result += " null"; break;
      case ConfigNode::Kind::kPlain:
      case ConfigNode::Kind::kQuoted: result += " " + format_scalar(entry); break;
      case ConfigNode::Kind::kList: result += format_list(entry, indent); break;
      case ConfigNode::Kind::kMap:
        result += entry.children.empty() ? " {}" : "\n" + format_entries(entry, indent + 2);
        break;
    }
    if (!result.ends_with('\n')) result += '\n';
  }
  return result;
}

}  // namespace

ConfigNode parse_yaml(const std::string& text, const std::string& source) {
  return TreeBuilder(text, {.source = source, .line = 1, .column = 1}).build();
}

ConfigNode parse_yaml_value(const std::string& text, const ConfigLocation& location) {
  return TreeBuilder(text, {.source = location.source}).build();
}

std::string format_yaml_value(const ConfigNode& value) {
  std::vector<std::string> items;
  if (value.kind == ConfigNode::Kind::kMap) {
    for (const ConfigNode& entry : value.children)
      items.push_back(fmt::format("{}: {}", entry.key, format_yaml_value(entry)));
    return fmt::format("{{{}}}", fmt::join(items, ", "));
  }
  if (value.kind != ConfigNode::Kind::kList) return format_scalar(value);
  for (const ConfigNode& item : value.children) items.push_back(format_yaml_value(item));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

std::string format_yaml(const ConfigNode& map) {
  return format_entries(map, 0);
}

}  // namespace sotto
