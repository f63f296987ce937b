#include "sotto/core/config/config_tree.h"

#include <utility>

#include "sotto/core/config/config_yaml.h"
#include "sotto/core/error.h"
#include "sotto/core/files/text_file.h"

namespace sotto {

namespace {

// Returns the entry `key` of a map that --set is about to change; creates it if it is missing.
ConfigNode& open_entry(ConfigNode& map, std::string_view key, const ConfigLocation& location) {
  if (map.kind == ConfigNode::Kind::kEmpty) map.kind = ConfigNode::Kind::kMap;
  if (map.kind != ConfigNode::Kind::kMap) {
    refuse(location, {.found = fmt::format("'{}' is {}, so it has no key '{}'", map.key,
                                           describe_value(map), key)});
  }
  if (ConfigNode* entry = map.find(key)) return *entry;
  map.children.push_back({.key = std::string(key), .key_location = location, .location = location});
  return map.children.back();
}

}  // namespace

const ConfigNode* ConfigNode::find(std::string_view entry_key) const {
  if (kind != Kind::kMap) return nullptr;
  for (const ConfigNode& child : children) {
    if (child.key == entry_key) return &child;
  }
  return nullptr;
}

ConfigNode* ConfigNode::find(std::string_view entry_key) {
  if (kind != Kind::kMap) return nullptr;
  for (ConfigNode& child : children) {
    if (child.key == entry_key) return &child;
  }
  return nullptr;
}

void add_entry(ConfigNode& map, ConfigNode entry) {
  if (const ConfigNode* first = map.find(entry.key)) {
    const int line = first->key_location.line;
    refuse(entry.key_location,
           {.found = fmt::format("duplicate key '{}'{}", entry.key,
                                 line > 0 ? fmt::format("; the first is in line {}", line) : "")});
  }
  map.children.push_back(std::move(entry));
}

void apply_override(ConfigNode& root, std::string_view text) {
  const ConfigLocation location = {.source = fmt::format("--set {}", text)};
  if (!is_utf8(text)) refuse(location, {.found = "it is not UTF-8"});
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    refuse(location, {.found = "it has no '='", .expected = "key=value or group.key=value"});
  }
  ConfigNode* node = &root;
  for (std::string_view path = text.substr(0, equals);;) {
    const size_t dot = path.find('.');
    const std::string_view key = path.substr(0, dot);
    if (key.empty()) {
      refuse(location, {.found = "a key is empty", .expected = "key=value or group.key=value"});
    }
    node = &open_entry(*node, key, location);
    if (dot == std::string_view::npos) break;
    path.remove_prefix(dot + 1);
  }
  ConfigNode value = parse_yaml_value(std::string(text.substr(equals + 1)), location);
  value.key = node->key;
  value.key_location = location;
  value.location = location;
  *node = std::move(value);
}

std::string describe_value(const ConfigNode& node) {
  switch (node.kind) {
    case ConfigNode::Kind::kEmpty: return "without a value";
    case ConfigNode::Kind::kPlain: return fmt::format("'{}'", node.text);
    case ConfigNode::Kind::kQuoted: return fmt::format("the quoted text \"{}\"", node.text);
    case ConfigNode::Kind::kList: return "a list";
    case ConfigNode::Kind::kMap: return "a group of keys";
  }
  return {};
}

void refuse(const ConfigLocation& location, const Complaint& complaint) {
  const std::string where =
      location.line > 0 ? fmt::format("line {}, column {}: ", location.line, location.column) : "";
  throw ConfigError({.attempted = fmt::format("reading {}", location.source),
                     .found = where + complaint.found,
                     .expected = complaint.expected,
                     .hint = complaint.hint});
}

}  // namespace sotto
