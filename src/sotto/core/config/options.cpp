#include "sotto/core/config/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "sotto/core/files/text_file.h"

namespace sotto {

namespace {

using Kind = ConfigNode::Kind;

// Reads and writes the values of one field, or the items of a list.
template <class Value>
struct Codec {
  std::string expected;
  std::string limits;
  // Returns std::nullopt if the node does not hold such a value.
  std::function<std::optional<Value>(const ConfigNode&)> parse;
  std::function<ConfigNode(const Value&)> write;
};

std::string join_limits(const std::string& kind, const std::string& limits) {
  return limits.empty() ? kind : kind + ", " + limits;
}

// Formats "from 1 to 200", "at least 1", "at most 200"; `format` formats the ends.
template <class Number, class Format>
std::string describe_ends(Number min, Number max, Format format) {
  const bool has_min = min > std::numeric_limits<Number>::lowest();
  const bool has_max = max < std::numeric_limits<Number>::max();
  if (has_min && has_max) return fmt::format("from {} to {}", format(min), format(max));
  if (has_min) return fmt::format("at least {}", format(min));
  if (has_max) return fmt::format("at most {}", format(max));
  return {};
}

template <class Format>
std::string describe_range(const RealRange& range, Format format) {
  std::string limits = describe_ends(range.min, range.max, format);
  const auto add = [&](const char* word, double end) {
    if (!std::isfinite(end)) return;
    if (!limits.empty()) limits += " and ";
    limits += fmt::format("{} {}", word, format(end));
  };
  add("above", range.above);
  add("below", range.below);
  return limits;
}

// A leading zero is refused because some readers interpret 010 as eight.
bool has_leading_zero(std::string_view digits) {
  if (digits.starts_with('-')) digits.remove_prefix(1);
  return digits.size() > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9';
}

template <class Number>
std::optional<Number> parse_number(const ConfigNode& node) {
  if (node.kind != Kind::kPlain || has_leading_zero(node.text)) return std::nullopt;
  Number number = 0;
  const char* last = node.text.data() + node.text.size();
  const auto [end, code] = std::from_chars(node.text.data(), last, number);
  if (code != std::errc{} || end != last) return std::nullopt;
  return number;
}

// Parses a value with one of the parsers of units.h.
template <class Value, class Parse>
std::optional<Value> parse_with_unit(const ConfigNode& node, Parse parse) {
  if (!node.is_scalar()) return std::nullopt;
  try {
    return parse(node.text);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

std::optional<int64_t> keep_within(std::optional<int64_t> number, const IntRange& range) {
  return number && *number >= range.min && *number <= range.max ? number : std::nullopt;
}

std::optional<double> keep_within(std::optional<double> number, const RealRange& range) {
  const bool inside = number && std::isfinite(*number) && *number >= range.min &&
                      *number <= range.max && *number > range.above && *number < range.below;
  return inside ? number : std::nullopt;
}

ConfigNode plain(std::string text) {
  return {.kind = Kind::kPlain, .text = std::move(text)};
}

ConfigNode quoted(const std::string& text) {
  if (!is_utf8(text)) {
    throw ConfigError({.attempted = fmt::format("writing '{}' into a configuration", text),
                       .found = "it is not UTF-8",
                       .hint = "Rename the file or folder it names."});
  }
  return {.kind = Kind::kQuoted, .text = text};
}

// Returns a text that parse_duration() reads back to the same number of seconds.
std::string exact_duration(double seconds) {
  SOTTO_ASSERT(std::isfinite(seconds) && seconds >= 0, "{} is no duration", seconds);
  constexpr std::array kUnits = {Named<double>{"d", 86400}, Named<double>{"h", 3600},
                                 Named<double>{"min", 60}};
  for (const Named<double>& unit : kUnits) {
    const double count = seconds / unit.value;
    if (count >= 1 && count < 1e9 && count == std::floor(count)) {
      return fmt::format("{:.0f}{}", count, unit.name);
    }
  }
  // The smallest double has about 1080 decimal digits after the point.
  std::array<char, 1100> digits{};
  const auto [end, code] = std::to_chars(digits.data(), digits.data() + digits.size(), seconds,
                                         std::chars_format::fixed);
  SOTTO_ASSERT(code == std::errc{});
  return std::string(digits.data(), end) + "s";
}

std::string exact_bytes(int64_t bytes) {
  if (bytes == 0) return "0B";
  return MemorySize{.kind = MemorySize::Kind::kBytes, .bytes = bytes}.to_string();
}

Codec<bool> boolean() {
  return {.expected = "true or false",
          .limits = {},
          .parse = [](const ConfigNode& node) -> std::optional<bool> {
            if (node.kind != Kind::kPlain) return std::nullopt;
            if (node.text != "true" && node.text != "false") return std::nullopt;
            return node.text == "true";
          },
          .write = [](bool value) { return plain(value ? "true" : "false"); }};
}

Codec<int64_t> integer(const IntRange& range) {
  const std::string limits =
      describe_ends(range.min, range.max, [](int64_t end) { return fmt::format("{}", end); });
  return {.expected = join_limits("a whole number", limits),
          .limits = limits,
          .parse =
              [range](const auto& node) { return keep_within(parse_number<int64_t>(node), range); },
          .write = [](int64_t value) { return plain(fmt::format("{}", value)); }};
}

Codec<double> real(const RealRange& range) {
  const std::string limits =
      describe_range(range, [](double end) { return fmt::format("{}", end); });
  return {
      .expected = join_limits("a finite number", limits),
      .limits = limits,
      .parse = [range](const auto& node) { return keep_within(parse_number<double>(node), range); },
      .write =
          [](double value) {
            SOTTO_ASSERT(std::isfinite(value), "a configuration cannot hold {}", value);
            // The shortest digits that read back to the same number.
            return plain(fmt::format("{}", value));
          }};
}

Codec<std::string> text() {
  return {.expected = "text",
          .limits = {},
          .parse =
              [](const auto& node) {
                return node.is_scalar() ? std::optional(node.text) : std::nullopt;
              },
          .write = quoted};
}

Codec<std::filesystem::path> path() {
  return {.expected = "a path",
          .limits = {},
          .parse = [](const ConfigNode& node) -> std::optional<std::filesystem::path> {
            // The system would take the part before a zero byte as the whole path.
            if (!node.is_scalar() || node.text.find('\0') != std::string::npos) return std::nullopt;
            return node.text;
          },
          .write = [](const std::filesystem::path& value) { return quoted(value.string()); }};
}

Codec<std::string> name(const std::vector<std::string>& names) {
  const std::string limits = fmt::format("{}", fmt::join(names, ", "));
  return {.expected = "one of " + limits,
          .limits = limits,
          .parse = [names](const ConfigNode& node) -> std::optional<std::string> {
            const bool known = std::find(names.begin(), names.end(), node.text) != names.end();
            return node.is_scalar() && known ? std::optional(node.text) : std::nullopt;
          },
          .write = quoted};
}

Codec<MemorySize> memory() {
  return {
      .expected = "a memory size with a unit such as 8GiB or 12GB, a share such as 90%, or auto",
      .limits = "8GiB, 12GB, 90%, auto",
      .parse =
          [](const auto& node) { return parse_with_unit<MemorySize>(node, MemorySize::parse); },
      .write = [](const MemorySize& value) { return quoted(value.to_string()); }};
}

Codec<int64_t> byte_size(const IntRange& range) {
  const std::string limits = describe_ends(range.min, range.max, exact_bytes);
  return {.expected = join_limits("a memory size with a unit such as 8GiB or 750MB", limits),
          .limits = limits,
          .parse =
              [range](const auto& node) {
                return keep_within(parse_with_unit<int64_t>(node, parse_bytes), range);
              },
          .write = [](int64_t value) { return quoted(exact_bytes(value)); }};
}

Codec<double> duration_s(const RealRange& range) {
  const std::string limits = describe_range(range, exact_duration);
  return {.expected = join_limits("a duration with a unit such as 90s, 15min or 1h30min", limits),
          .limits = limits,
          .parse =
              [range](const auto& node) {
                return keep_within(parse_with_unit<double>(node, parse_duration), range);
              },
          .write = [](double value) { return quoted(exact_duration(value)); }};
}

// Key and help, the common first part of every option.
struct Label {
  std::string_view key;
  std::string_view help;
};

template <class Value>
Option single(const Label& label, Value& value, const Codec<Value>& codec) {
  const auto read = [&value, parse = codec.parse](const ConfigNode& node) -> const ConfigNode* {
    std::optional<Value> parsed = parse(node);
    if (!parsed) return &node;
    value = std::move(*parsed);
    return nullptr;
  };
  return {.key = label.key,
          .help = label.help,
          .expected = codec.expected,
          .limits = codec.limits,
          .read = read,
          .write = [&value, write = codec.write] { return write(value); }};
}

template <class Value>
Option list(const Label& label, std::vector<Value>& values, const Codec<Value>& codec) {
  const auto read = [&values, parse = codec.parse](const ConfigNode& node) -> const ConfigNode* {
    if (node.kind != Kind::kList) return &node;
    std::vector<Value> result;
    for (const ConfigNode& child : node.children) {
      std::optional<Value> parsed = parse(child);
      if (!parsed) return &child;
      result.push_back(std::move(*parsed));
    }
    values = std::move(result);
    return nullptr;
  };
  const auto write = [&values, write_item = codec.write] {
    ConfigNode node = {.kind = Kind::kList};
    for (const Value& value : values) node.children.push_back(write_item(value));
    return node;
  };
  return {.key = label.key,
          .help = label.help,
          .expected = fmt::format("a list such as [a, b], each item {}", codec.expected),
          .limits = codec.limits.empty() ? "" : "each: " + codec.limits,
          .read = read,
          .write = write};
}

}  // namespace

void OptionVisitor::visit_text(Option option, const std::string& text, const SetText& set) {
  option.read = [&set](const ConfigNode& node) -> const ConfigNode* {
    if (!node.is_scalar()) return &node;
    try {
      set(node.text);
    } catch (const ConfigError&) {
      return &node;
    }
    return nullptr;
  };
  option.write = [&text] { return quoted(text); };
  visit_option(option);
}

void OptionVisitor::value(std::string_view key, bool& value, std::string_view help) {
  visit_option(single({key, help}, value, boolean()));
}

void OptionVisitor::value(std::string_view key, int64_t& value, std::string_view help,
                          IntRange range) {
  visit_option(single({key, help}, value, integer(range)));
}

void OptionVisitor::value(std::string_view key, double& value, std::string_view help,
                          RealRange range) {
  visit_option(single({key, help}, value, real(range)));
}

void OptionVisitor::value(std::string_view key, std::string& value, std::string_view help) {
  visit_option(single({key, help}, value, text()));
}

void OptionVisitor::value(std::string_view key, std::filesystem::path& value,
                          std::string_view help) {
  visit_option(single({key, help}, value, path()));
}

void OptionVisitor::value(std::string_view key, MemorySize& value, std::string_view help) {
  visit_option(single({key, help}, value, memory()));
}

void OptionVisitor::value(std::string_view key, std::vector<int64_t>& values, std::string_view help,
                          IntRange range) {
  visit_option(list({key, help}, values, integer(range)));
}

void OptionVisitor::value(std::string_view key, std::vector<double>& values, std::string_view help,
                          RealRange range) {
  visit_option(list({key, help}, values, real(range)));
}

void OptionVisitor::value(std::string_view key, std::vector<std::string>& values,
                          std::string_view help) {
  visit_option(list({key, help}, values, text()));
}

void OptionVisitor::bytes(std::string_view key, int64_t& value, std::string_view help,
                          IntRange range) {
  visit_option(single({key, help}, value, byte_size(range)));
}

void OptionVisitor::duration(std::string_view key, double& seconds, std::string_view help,
                             RealRange range) {
  visit_option(single({key, help}, seconds, duration_s(range)));
}

void OptionVisitor::choice(std::string_view key, std::string& value, std::string_view help,
                           const std::vector<std::string>& names) {
  visit_option(single({key, help}, value, name(names)));
}

void OptionVisitor::choice(std::string_view key, std::vector<std::string>& values,
                           std::string_view help, const std::vector<std::string>& names) {
  visit_option(list({key, help}, values, name(names)));
}

}  // namespace sotto
