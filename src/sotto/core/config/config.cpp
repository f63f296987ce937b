#include "sotto/core/config/config.h"

#include <algorithm>

#include "sotto/core/config/config_json.h"
#include "sotto/core/config/config_yaml.h"
#include "sotto/core/error.h"
#include "sotto/core/files/text_file.h"
#include "sotto/core/nearest.h"

namespace sotto {

namespace {

constexpr const char* kVersionKey = "format_version";

// Reads the entries of one map into the fields of one struct.
class GroupReader : public OptionVisitor {
 public:
  // `known` lists keys of the map that are not fields of the struct.
  GroupReader(const ConfigNode& map, std::vector<std::string> known)
      : map_(map), known_(std::move(known)) {}

  void read(const OptionGroup& group) {
    if (map_.kind != ConfigNode::Kind::kMap) {
      refuse(map_.location, {.found = fmt::format("{} is {}", name_of_map(), describe_value(map_)),
                             .expected = "a group of keys, each with its value"});
    }
    group.visit(*this);
    for (const ConfigNode& entry : map_.children) refuse_unknown(entry);
    validate(group, map_.location);
  }

 protected:
  void visit_option(const Option& option) override {
    const ConfigNode* node = take(option.key);
    if (node == nullptr) return;
    const ConfigNode* wrong = option.read(*node);
    if (wrong == nullptr) return;
    const char* form = wrong == node ? "'{}' is {}" : "an item of '{}' is {}";
    refuse(wrong->location,
           {.found = fmt::format(fmt::runtime(form), option.key, describe_value(*wrong)),
            .expected = option.expected});
  }

  void visit_group(const OptionGroup& group) override {
    // A missing group is read as an empty one, so that its defaults are validated too.
    const ConfigNode absent = {
        .kind = ConfigNode::Kind::kMap, .key = std::string(group.key), .location = map_.location};
    const ConfigNode* node = take(group.key);
    GroupReader(node != nullptr ? *node : absent, {}).read(group);
  }

  void visit_groups(const OptionGroups& groups) override {
    const ConfigNode* node = take(groups.key);
    if (node == nullptr) return;
    const auto check = [&](const ConfigNode& value, ConfigNode::Kind kind, const char* form) {
      if (value.kind == kind) return;
      refuse(value.location,
             {.found = fmt::format(fmt::runtime(form), groups.key, describe_value(value)),
              .expected = "a list with a group of keys per item, such as [{a: 1}, {a: 2}]"});
    };
    check(*node, ConfigNode::Kind::kList, "'{}' is {}");
    groups.reset(node->children.size());
    for (size_t i = 0; i < node->children.size(); ++i) {
      ConfigNode item = node->children[i];
      check(item, ConfigNode::Kind::kMap, "an item of '{}' is {}");
      item.key = groups.key;
      GroupReader(item, {}).read(groups.item(i));
    }
  }

 private:
  std::string name_of_map() const {
    return map_.key.empty() ? "the top level" : fmt::format("'{}'", map_.key);
  }

  const ConfigNode* take(std::string_view key) {
    SOTTO_ASSERT(std::find(known_.begin(), known_.end(), key) == known_.end(),
                 "two options are called '{}'", key);
    known_.emplace_back(key);
    return map_.find(key);
  }

  void refuse_unknown(const ConfigNode& entry) const {
    if (std::find(known_.begin(), known_.end(), entry.key) != known_.end()) return;
    const std::optional<std::string> meant = nearest(entry.key, known_);
    const std::string where = map_.key.empty() ? "" : fmt::format(" in '{}'", map_.key);
    Complaint complaint = {.found = fmt::format("unknown key '{}'{}", entry.key, where)};
    if (!meant) {
      complaint.expected = fmt::format("one of {}", fmt::join(known_, ", "));
    } else {
      complaint.hint = fmt::format("Did you mean '{}'?", *meant);
    }
    refuse(entry.key_location, complaint);
  }

  // The struct knows what is wrong, the reader knows where it was written.
  static void validate(const OptionGroup& group, const ConfigLocation& location) {
    try {
      group.validate();
    } catch (const ConfigError& error) {
      std::string found = error.what();
      if (found.ends_with('.')) found.pop_back();
      refuse(location, {.found = found});
    }
  }

  const ConfigNode& map_;
  std::vector<std::string> known_;
};

ConfigNode write_list(const OptionGroups& groups);

// Builds the tree of one struct.
class GroupWriter : public OptionVisitor {
 public:
  explicit GroupWriter(ConfigNode& map) : map_(map) {}

 protected:
  void visit_option(const Option& option) override {
    ConfigNode entry = option.write();
    entry.key = option.key;
    entry.comment = option.help;
    if (!option.limits.empty()) entry.comment += fmt::format(" ({})", option.limits);
    map_.children.push_back(std::move(entry));
  }

  void visit_group(const OptionGroup& group) override {
    ConfigNode entry = {.kind = ConfigNode::Kind::kMap,
                        .key = std::string(group.key),
                        .comment = std::string(group.help)};
    GroupWriter writer(entry);
    group.visit(writer);
    map_.children.push_back(std::move(entry));
  }

  void visit_groups(const OptionGroups& groups) override {
    if (groups.size() > 0) map_.children.push_back(write_list(groups));
  }

 private:
  ConfigNode& map_;
};

ConfigNode write_list(const OptionGroups& groups) {
  ConfigNode list = {.kind = ConfigNode::Kind::kList,
                     .key = std::string(groups.key),
                     .comment = std::string(groups.help)};
  for (size_t i = 0; i < groups.size(); ++i) {
    ConfigNode& item = list.children.emplace_back(ConfigNode{.kind = ConfigNode::Kind::kMap});
    GroupWriter writer(item);
    groups.item(i).visit(writer);
  }
  return list;
}

// Lists the settings of one struct under its dotted prefix.
class GroupLister : public OptionVisitor {
 public:
  GroupLister(std::vector<OptionInfo>& list, std::string prefix)
      : list_(list), prefix_(std::move(prefix)) {}

 protected:
  void visit_option(const Option& option) override {
    list_.push_back({.key = prefix_ + std::string(option.key),
                     .help = std::string(option.help),
                     .expected = option.expected,
                     .value = format_yaml_value(option.write())});
  }

  void visit_group(const OptionGroup& group) override {
    GroupLister lister(list_, fmt::format("{}{}.", prefix_, group.key));
    group.visit(lister);
  }

  void visit_groups(const OptionGroups& groups) override {
    list_.push_back({.key = prefix_ + std::string(groups.key),
                     .help = std::string(groups.help),
                     .expected = "a list with a group of keys per item",
                     .value = format_yaml_value(write_list(groups))});
  }

 private:
  std::vector<OptionInfo>& list_;
  std::string prefix_;
};

void check_version(const ConfigNode& root) {
  const ConfigNode* node = root.find(kVersionKey);
  if (node == nullptr) return;
  struct Header {
    int64_t version = kConfigFormatVersion;
    void visit(OptionVisitor& visitor) { visitor.value(kVersionKey, version, "", {.min = 1}); }
  };
  Header header;
  const ConfigNode only = {.kind = ConfigNode::Kind::kMap, .children = {*node}};
  GroupReader(only, {}).read(as_group(header));
  if (header.version > kConfigFormatVersion) {
    throw DataError({.attempted = fmt::format("reading {}", node->location.source),
                     .found = fmt::format("its {} is {}", kVersionKey, header.version),
                     .expected = fmt::format("{} or less", kConfigFormatVersion),
                     .hint = "A newer sotto wrote this."});
  }
}

}  // namespace

ConfigNode load_config(const std::filesystem::path& path,
                       const std::vector<std::string>& overrides) {
  const std::string text = read_text_file(path);
  const bool is_json = path.extension() == ".json";
  ConfigNode root = is_json ? parse_json(text, path.string()) : parse_yaml(text, path.string());
  if (root.kind == ConfigNode::Kind::kEmpty) {
    throw DataError({.attempted = fmt::format("reading {}", path.string()),
                     .found = "the file contains only whitespace and comments",
                     .expected = "settings",
                     .hint = "Write {} for no settings."});
  }
  if (root.kind != ConfigNode::Kind::kMap) {
    refuse(root.location, {.found = fmt::format("the top level is {}", describe_value(root)),
                           .expected = "keys, each with its value"});
  }
  root.location = {.source = path.string()};
  for (const std::string& text_of_override : overrides) apply_override(root, text_of_override);
  return root;
}

ConfigNode load_overrides(const std::vector<std::string>& overrides) {
  ConfigNode root = {.kind = ConfigNode::Kind::kMap, .location = {.source = "the settings"}};
  for (const std::string& text : overrides) apply_override(root, text);
  return root;
}

void read_group(const ConfigNode& root, const OptionGroup& options) {
  check_version(root);
  GroupReader(root, {kVersionKey}).read(options);
}

ConfigNode write_group(const OptionGroup& options) {
  ConfigNode root = {.kind = ConfigNode::Kind::kMap};
  root.children.push_back({.kind = ConfigNode::Kind::kPlain,
                           .key = kVersionKey,
                           .text = fmt::format("{}", kConfigFormatVersion),
                           .comment = "format version of this file"});
  GroupWriter writer(root);
  options.visit(writer);
  return root;
}

std::vector<OptionInfo> list_group(const OptionGroup& options) {
  std::vector<OptionInfo> list;
  GroupLister lister(list, "");
  options.visit(lister);
  return list;
}

}  // namespace sotto
