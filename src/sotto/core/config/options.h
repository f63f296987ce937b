// Lets a struct of options describe its fields once, for all code that reads, writes or lists them:
//
//   struct EncoderOptions {
//     // Transformer blocks.
//     int64_t layers = 12;
//     // Fraction of values set to zero in training.
//     double dropout = 0.1;
//     // Activation of the feed-forward part.
//     Activation activation = Activation::kGelu;
//
//     void visit(OptionVisitor& visitor) {
//       visitor.value("layers", layers, "transformer blocks", {.min = 1, .max = 200});
//       visitor.value("dropout", dropout, "dropout probability", {.min = 0, .below = 1});
//       visitor.choice("activation", activation, "feed-forward activation", kActivations);
//     }
//     void validate() const;  // where fields must agree with each other; throws ConfigError
//   };
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/config/config_tree.h"
#include "sotto/core/error.h"
#include "sotto/core/units.h"

namespace sotto {

// Valid range of an integer, both ends inclusive. In bytes for a memory size.
struct IntRange {
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
};

// Valid range of a number. In seconds for a duration.
struct RealRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  // Exclusive counterparts of min and max.
  double above = -std::numeric_limits<double>::infinity();
  double below = std::numeric_limits<double>::infinity();
};

// One entry of the name table of an enum.
template <class Enum>
struct Named {
  std::string_view name;
  Enum value;
};

// Returns the name of a value in such a table, or the value of a name that is known to be in it.
template <class Enum, size_t N>
std::string_view name_of(Enum value, const std::array<Named<Enum>, N>& names) {
  for (const Named<Enum>& entry : names) {
    if (entry.value == value) return entry.name;
  }
  SOTTO_ASSERT(false, "a value has no name");
  return {};
}

template <class Enum, size_t N>
Enum value_of(std::string_view name, const std::array<Named<Enum>, N>& names) {
  for (const Named<Enum>& entry : names) {
    if (entry.name == name) return entry.value;
  }
  SOTTO_ASSERT(false, "the name '{}' has no value", name);
  return {};
}

// One field, with conversion from and to text.
struct Option {
  std::string_view key;
  std::string_view help;
  // Description of valid values: "one of cpu, cuda"
  std::string expected;
  // The part of `expected` that a reader of the file needs: "cpu, cuda"; empty if there is none
  std::string limits;
  // Reads the value from a node; returns the invalid node, or nullptr if there is none.
  std::function<const ConfigNode*(const ConfigNode&)> read;
  std::function<ConfigNode()> write;
};

class OptionVisitor;

// A struct of options as a whole, either top-level (without a key) or nested in another.
struct OptionGroup {
  std::string_view key;
  std::string_view help;
  std::function<void(OptionVisitor&)> visit;
  std::function<void()> validate;
};

// A list of structs of options. Items are numbered from 0.
struct OptionGroups {
  std::string_view key;
  std::string_view help;
  std::function<size_t()> size;
  // Replaces the list by this many items with default values.
  std::function<void(size_t)> reset;
  // Valid until the next reset.
  std::function<OptionGroup(size_t)> item;
};

// Visits the fields of a struct in order. The help is one line without a full stop; it need not
// repeat limits and choices.
class OptionVisitor {
 public:
  virtual ~OptionVisitor() = default;

  void value(std::string_view key, bool& value, std::string_view help);
  void value(std::string_view key, int64_t& value, std::string_view help, IntRange range = {});
  void value(std::string_view key, double& value, std::string_view help, RealRange range = {});
  void value(std::string_view key, std::string& value, std::string_view help);
  void value(std::string_view key, std::filesystem::path& value, std::string_view help);
  void value(std::string_view key, MemorySize& value, std::string_view help);
  void value(std::string_view key, std::vector<int64_t>& values, std::string_view help,
             IntRange range = {});
  void value(std::string_view key, std::vector<double>& values, std::string_view help,
             RealRange range = {});
  void value(std::string_view key, std::vector<std::string>& values, std::string_view help);

  // Bytes, written as "8GiB".
  void bytes(std::string_view key, int64_t& value, std::string_view help, IntRange range = {});

  // Seconds, written as "15min".
  void duration(std::string_view key, double& seconds, std::string_view help, RealRange range = {});

  // One name, or a list of names, from the given ones.
  void choice(std::string_view key, std::string& value, std::string_view help,
              const std::vector<std::string>& names);
  void choice(std::string_view key, std::vector<std::string>& values, std::string_view help,
              const std::vector<std::string>& names);
  template <class Enum, size_t N>
  void choice(std::string_view key, Enum& value, std::string_view help,
              const std::array<Named<Enum>, N>& names) {
    std::vector<std::string> words;
    for (const Named<Enum>& entry : names) words.emplace_back(entry.name);
    std::string word(name_of(value, names));
    choice(key, word, help, words);
    value = value_of(word, names);
  }

  // A value with a text form of its own: Value::parse(text), which throws ConfigError, and
  // to_string(). `expected`: a description of valid values.
  template <class Value>
  void parsed(std::string_view key, Value& value, std::string_view help, std::string_view expected);

  // A nested struct of options.
  template <class Options>
  void group(std::string_view key, Options& options, std::string_view help);

  // A list of structs of options, written only if it is not empty. A setting that an item does not
  // give has its value in `defaults`.
  template <class Options>
  void groups(std::string_view key, std::vector<Options>& list, std::string_view help,
              const Options& defaults = {});

 protected:
  // Implementations must finish with their arguments before they return: these do not outlive the
  // call.
  virtual void visit_option(const Option& option) = 0;
  virtual void visit_group(const OptionGroup& group) = 0;
  virtual void visit_groups(const OptionGroups& groups) = 0;

 private:
  // Throws ConfigError where the text is invalid.
  using SetText = std::function<void(const std::string&)>;
  void visit_text(Option option, const std::string& text, const SetText& set);
};

// Returns `options` as a group; `options` must outlive it.
template <class Options>
OptionGroup as_group(Options& options) {
  return {.key = {},
          .help = {},
          .visit = [&options](OptionVisitor& visitor) { options.visit(visitor); },
          .validate =
              [&] {
                if constexpr (requires { options.validate(); }) options.validate();
              }};
}

template <class Options>
void OptionVisitor::group(std::string_view key, Options& options, std::string_view help) {
  OptionGroup group = as_group(options);
  group.key = key;
  group.help = help;
  visit_group(group);
}

template <class Options>
void OptionVisitor::groups(std::string_view key, std::vector<Options>& list, std::string_view help,
                           const Options& defaults) {
  visit_groups({.key = key,
                .help = help,
                .size = [&list] { return list.size(); },
                .reset = [&](size_t count) { list.assign(count, defaults); },
                .item = [&list](size_t index) { return as_group(list[index]); }});
}

template <class Value>
void OptionVisitor::parsed(std::string_view key, Value& value, std::string_view help,
                           std::string_view expected) {
  const Option option{.key = key,
                      .help = help,
                      .expected = std::string(expected),
                      .limits = {},
                      .read = {},
                      .write = {}};
  visit_text(option, value.to_string(),
             [&value](const std::string& text) { value = Value::parse(text); });
}

}  // namespace sotto
