#include "sotto/lab/suite.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

#include "sotto/core/config/config.h"
#include "sotto/core/config/config_yaml.h"
#include "sotto/core/error.h"
#include "sotto/core/files/text_file.h"
#include "sotto/core/nearest.h"
#include "sotto/lab/suite_texts.h"

namespace sotto::lab {

namespace {

namespace fs = std::filesystem;

constexpr std::array kSuiteKinds = {Named{"training", Suite::Kind::kTraining},
                                    Named{"limits", Suite::Kind::kLimits},
                                    Named{"sizes", Suite::Kind::kSizes}};

constexpr size_t kMostExperiments = 1'000;

void check_keys(const ConfigNode& map, std::span<const std::string> known) {
  if (map.kind != ConfigNode::Kind::kMap)
    refuse(map.location, {.found = describe_value(map), .expected = "keys and values"});
  for (const ConfigNode& entry : map.children) {
    if (std::ranges::find(known, entry.key) != known.end()) continue;
    const std::optional<std::string> close = nearest(entry.key, known);
    refuse(entry.key_location, {.found = fmt::format("unknown key '{}'", entry.key),
                                .expected = fmt::format("one of {}", fmt::join(known, ", ")),
                                .hint = close ? fmt::format("Did you mean {}?", *close) : ""});
  }
}

std::string text_of(const ConfigNode& map, std::string_view key, const std::string& absent = {}) {
  const ConfigNode* const node = map.find(key);
  if (node == nullptr) return absent;
  if (node->is_scalar() && !node->text.empty()) return node->text;
  refuse(node->location, {.found = describe_value(*node), .expected = "a text"});
}

template <class Number>
Number read_number(const ConfigNode& node, Number most) {
  Number value = {};
  const char* const end = node.text.data() + node.text.size();
  const auto [stop, error] = std::from_chars(node.text.data(), end, value);
  if (node.is_scalar() && error == std::errc() && stop == end && value > Number{} && value <= most)
    return value;
  refuse(node.location, {.found = describe_value(node),
                         .expected = fmt::format("a number above 0, at most {}", most)});
}

template <class Number>
Number number_of(const ConfigNode& map, std::string_view key, Number most) {
  const ConfigNode* const node = map.find(key);
  return node == nullptr ? Number{} : read_number(*node, most);
}

std::vector<int64_t> numbers_of(const ConfigNode& map, std::string_view key, int64_t most) {
  const ConfigNode* const node = map.find(key);
  if (node == nullptr) return {};
  if (node->kind != ConfigNode::Kind::kList || node->children.empty())
    refuse(node->location, {.found = describe_value(*node), .expected = "a list of numbers"});
  std::vector<int64_t> numbers;
  for (const ConfigNode& item : node->children) numbers.push_back(read_number(item, most));
  return numbers;
}

bool flag_of(const ConfigNode& map, std::string_view key) {
  const ConfigNode* const node = map.find(key);
  if (node == nullptr) return false;
  if (node->text == "true" || node->text == "false") return node->text == "true";
  refuse(node->location, {.found = describe_value(*node), .expected = "true or false"});
}

std::vector<std::string> texts_of(const ConfigNode& map, std::string_view key) {
  const ConfigNode* const node = map.find(key);
  if (node == nullptr) return {};
  std::vector<std::string> texts;
  for (const ConfigNode& item : node->children) {
    if (!item.is_scalar())
      refuse(item.location, {.found = describe_value(item), .expected = "a text"});
    texts.push_back(item.text);
  }
  if (node->kind != ConfigNode::Kind::kList || texts.empty())
    refuse(node->location, {.found = describe_value(*node), .expected = "a list of texts"});
  return texts;
}

// Appends "a.b=value" for each value in a map of settings.
void flatten(const ConfigNode& node, const std::string& path, std::vector<std::string>& settings) {
  if (node.kind != ConfigNode::Kind::kMap) {
    if (path.empty())
      refuse(node.location, {.found = describe_value(node), .expected = "settings and values"});
    settings.push_back(fmt::format("{}={}", path, format_yaml_value(node)));
    return;
  }
  for (const ConfigNode& entry : node.children)
    flatten(entry, path.empty() ? entry.key : fmt::format("{}.{}", path, entry.key), settings);
}

std::vector<std::string> settings_of(const ConfigNode& map) {
  std::vector<std::string> settings;
  if (const ConfigNode* const node = map.find("settings")) flatten(*node, "", settings);
  return settings;
}

// Returns why a name cannot be part of a file's name; empty if it can.
std::string name_problem(const std::string& name) {
  const auto is_allowed = [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '_' || letter == '-' || letter == '.';
  };
  if (name.empty() || name.front() == '.' || !std::ranges::all_of(name, is_allowed))
    return "letters, digits, '_', '-' and '.', since files are named by it";
  const size_t mark = name.rfind("_seed");
  const bool is_repetition = mark != std::string::npos && mark + 5 < name.size() &&
                             std::ranges::all_of(name.substr(mark + 5), [](unsigned char c) {
                               return std::isdigit(c) != 0;
                             });
  return is_repetition ? "another ending: _seedN is that of repetitions" : "";
}

void check_name(const std::string& name, const ConfigLocation& location) {
  const std::string problem = name_problem(name);
  if (!problem.empty())
    refuse(location, {.found = fmt::format("the name '{}'", name), .expected = problem});
}

Experiment parse_experiment(const ConfigNode& node) {
  static const std::array<std::string, 4> kKeys = {"name", "title", "settings", "budget"};
  check_keys(node, kKeys);
  Experiment experiment{.name = text_of(node, "name"),
                        .title = text_of(node, "title"),
                        .settings = settings_of(node),
                        .budget_share = number_of<double>(node, "budget", 1.0)};
  check_name(experiment.name, node.location);
  return experiment;
}

// "bf16-exact" for the setting numerics=bf16-exact: a part of the name of a combination.
std::string name_of_value(const std::string& value) {
  std::string name;
  for (const char letter : value)
    name += std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '-' || letter == '.'
                ? letter
                : '-';
  return name;
}

// Returns one experiment for each combination of values; the last key varies fastest.
std::vector<Experiment> combinations_of(const ConfigNode& matrix) {
  std::vector<Experiment> all = {{.name = ""}};
  for (const ConfigNode& entry : matrix.children) {
    if (entry.kind != ConfigNode::Kind::kList || entry.children.empty())
      refuse(entry.location,
             {.found = describe_value(entry), .expected = "a list of values for each setting"});
    std::vector<Experiment> longer;
    for (const Experiment& before : all) {
      for (const ConfigNode& value : entry.children) {
        const std::string text = format_yaml_value(value);
        Experiment& next = longer.emplace_back(before);
        next.name += (before.name.empty() ? "" : "_") + name_of_value(text);
        next.title += fmt::format("{}{} {}", before.title.empty() ? "" : ", ", entry.key, text);
        next.settings.push_back(fmt::format("{}={}", entry.key, text));
      }
    }
    all = std::move(longer);
    if (all.size() > kMostExperiments)
      refuse(matrix.location, {.found = fmt::format("{} combinations", all.size()),
                               .expected = fmt::format("at most {}", kMostExperiments)});
  }
  std::set<std::string> names;
  for (const Experiment& experiment : all) {
    check_name(experiment.name, matrix.location);
    if (!names.insert(experiment.name).second)
      refuse(matrix.location, {.found = fmt::format("two combinations named '{}'", experiment.name),
                               .expected = "values that differ in letters or digits"});
  }
  return all;
}

std::vector<Experiment> experiments_of(const ConfigNode& root) {
  const ConfigNode* const list = root.find("experiments");
  const ConfigNode* const matrix = root.find("matrix");
  if (list != nullptr && matrix != nullptr)
    refuse(matrix->key_location,
           {.found = "a matrix beside experiments", .expected = "one of them"});
  if (matrix != nullptr) {
    if (matrix->kind != ConfigNode::Kind::kMap || matrix->children.empty())
      refuse(matrix->location, {.found = describe_value(*matrix),
                                .expected = "settings, each with a list of values"});
    return combinations_of(*matrix);
  }
  std::vector<Experiment> experiments;
  if (list == nullptr) return experiments;
  if (list->kind != ConfigNode::Kind::kList)
    refuse(list->location, {.found = describe_value(*list), .expected = "a list of experiments"});
  for (const ConfigNode& node : list->children) {
    experiments.push_back(parse_experiment(node));
    const auto has_name = [&](const Experiment& other) {
      return other.name == experiments.back().name;
    };
    if (std::ranges::count_if(experiments, has_name) > 1)
      refuse(node.location,
             {.found = fmt::format("a second experiment '{}'", experiments.back().name),
              .expected = "a name of its own"});
  }
  return experiments;
}

void check_format(const ConfigNode& root) {
  const ConfigNode* const version = root.find("format_version");
  if (version == nullptr || version->text == "1") return;
  refuse(version->location, {.found = fmt::format("format_version {}", version->text),
                             .expected = "1",
                             .hint = "A later version of sotto may read it."});
}

std::vector<std::string> names_of(const std::vector<Experiment>& experiments) {
  std::vector<std::string> names;
  for (const Experiment& experiment : experiments) names.push_back(experiment.name);
  return names;
}

void check_known(const std::vector<std::string>& names, const Suite& suite) {
  const std::vector<std::string> known = names_of(suite.experiments);
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) != known.end()) continue;
    const std::optional<std::string> close = nearest(name, known);
    throw ConfigError({.attempted = fmt::format("choosing experiments of the suite {}", suite.name),
                       .found = fmt::format("no experiment '{}'", name),
                       .expected = fmt::format("some of {}", fmt::join(known, ", ")),
                       .hint = close ? fmt::format("Did you mean {}?", *close) : ""});
  }
}

// Parts of a suite that its kind does not use would have no effect.
void check_parts(const Suite& suite, const ConfigNode& root) {
  const bool is_of_sizes = suite.kind == Suite::Kind::kSizes;
  if (!is_of_sizes && suite.experiments.empty())
    refuse(root.location, {.found = "no experiments", .expected = "experiments, or a matrix"});
  if (is_of_sizes &&
      (suite.models.empty() || (suite.budgets.empty() && suite.micro_batches.empty())))
    refuse(root.location,
           {.found = "a suite of sizes without models, or without budgets and micro-batches",
            .expected = "models, and one or both of the lists budgets and micro_batches"});
  const auto refuse_part = [&](std::string_view key) {
    const ConfigNode* const node = root.find(key);
    if (node == nullptr) return;
    refuse(node->key_location,
           {.found = fmt::format("{} in a suite of kind {}", key, name_of_kind(suite.kind)),
            .expected = "keys that this kind of suite uses"});
  };
  if (is_of_sizes) {
    for (const char* key : {"experiments", "matrix", "whole_batch", "vocabulary", "seeds"})
      refuse_part(key);
  } else {
    for (const char* key : {"models", "budgets", "micro_batches"}) refuse_part(key);
  }
  if (suite.kind != Suite::Kind::kLimits) {
    for (const Experiment& experiment : suite.experiments) {
      if (experiment.budget_share == 0.0) continue;
      refuse(root.location,
             {.found = fmt::format("a budget of experiment {} in a suite of kind {}",
                                   experiment.name, name_of_kind(suite.kind)),
              .expected = "kind: limits, whose budgets are fractions of a standard run's memory"});
    }
  } else {
    for (const Experiment& experiment : suite.experiments) {
      if (experiment.budget_share > 0.0) continue;
      refuse(root.location, {.found = fmt::format("no budget of experiment {}", experiment.name),
                             .expected = "a fraction of the standard run's memory"});
    }
  }
}

}  // namespace

std::string_view name_of_kind(Suite::Kind kind) {
  return name_of(kind, kSuiteKinds);
}

Suite parse_suite(const std::string& text, const std::string& source) {
  static const std::array<std::string, 13> kKeys = {
      "format_version", "name",       "kind",   "summary", "settings",      "experiments", "matrix",
      "whole_batch",    "vocabulary", "models", "budgets", "micro_batches", "seeds"};
  const ConfigNode root = parse_yaml(text, source);
  check_keys(root, kKeys);
  check_format(root);
  Suite suite{.name = text_of(root, "name"),
              .summary = text_of(root, "summary"),
              .settings = settings_of(root),
              .experiments = experiments_of(root),
              .is_whole_batch = flag_of(root, "whole_batch"),
              .num_seeds = std::max<int64_t>(1, number_of<int64_t>(root, "seeds", 1'000)),
              .vocabulary = number_of<int64_t>(root, "vocabulary", 10'000'000),
              .models = texts_of(root, "models"),
              .budgets = texts_of(root, "budgets"),
              .micro_batches = numbers_of(root, "micro_batches", 1'000'000)};
  check_name(suite.name, root.location);
  const std::string kind = text_of(root, "kind", "training");
  const auto found = std::ranges::find(kSuiteKinds, kind, &Named<Suite::Kind>::name);
  if (found == kSuiteKinds.end())
    refuse(root.find("kind")->location,
           {.found = fmt::format("kind '{}'", kind), .expected = "training, limits or sizes"});
  suite.kind = found->value;
  check_parts(suite, root);
  return suite;
}

std::vector<Suite> built_in_suites() {
  std::vector<Suite> suites;
  for (const SuiteText& text : kSuiteTexts)
    suites.push_back(parse_suite(std::string(text.yaml), std::string(text.file)));
  return suites;
}

Suite find_suite(const std::string& name_or_path) {
  std::vector<std::string> names;
  for (Suite& suite : built_in_suites()) {
    if (suite.name == name_or_path) return std::move(suite);
    names.push_back(suite.name);
  }
  const fs::path path = name_or_path;
  std::error_code ignored;
  if (path.has_extension() || path.has_parent_path() || fs::exists(path, ignored))
    return parse_suite(read_text_file(path), name_or_path);
  const std::optional<std::string> close = nearest(name_or_path, names);
  throw ConfigError({.attempted = "finding a suite",
                     .found = fmt::format("no suite '{}'", name_or_path),
                     .expected = fmt::format("{}, or a YAML file", fmt::join(names, ", ")),
                     .hint = close ? fmt::format("Did you mean {}?", *close)
                                   : "sotto lab list shows all of them."});
}

void check_file_name(const std::string& name, const std::string& what) {
  const std::string problem = name_problem(name);
  if (problem.empty()) return;
  throw ConfigError({.attempted = fmt::format("naming {}", what),
                     .found = fmt::format("'{}'", name),
                     .expected = problem});
}

void expand_sizes(Suite& suite) {
  suite.experiments.clear();
  for (const std::string& model : suite.models) {
    // A folder is named by its last part.
    const fs::path path = fs::path(model).lexically_normal();
    const std::string name = (path.has_filename() ? path : path.parent_path()).filename().string();
    const auto add = [&](const std::string& size, Experiment experiment) {
      experiment.name = fmt::format("{}_{}", name_of_value(name), size);
      experiment.model = model;
      suite.experiments.push_back(std::move(experiment));
    };
    for (const std::string& budget : suite.budgets)
      add(name_of_value(budget),
          {.name = {}, .title = fmt::format("{} in {}", model, budget), .memory = budget});
    for (const int64_t count : suite.micro_batches)
      add(fmt::format("micro_batch_{}", count),
          {.name = {},
           .title = fmt::format("{}, micro-batches of {}", model, count),
           .micro_batch = count});
    if (!suite.micro_batches.empty())
      add("smallest_budget", {.name = {},
                              .title = fmt::format("{} in its smallest budget", model),
                              .has_smallest_budget = true});
  }
  std::vector<std::string> names = names_of(suite.experiments);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return;
  throw ConfigError({.attempted = fmt::format("setting up the suite {}", suite.name),
                     .found = fmt::format("two experiments named {}", *twice),
                     .expected = "each model, budget and micro-batch once"});
}

void select_experiments(Suite& suite, const std::vector<std::string>& only,
                        const std::vector<std::string>& skip) {
  check_known(only, suite);
  check_known(skip, suite);
  std::erase_if(suite.experiments, [&](const Experiment& experiment) {
    const bool is_wanted = only.empty() || std::ranges::find(only, experiment.name) != only.end();
    return !is_wanted || std::ranges::find(skip, experiment.name) != skip.end();
  });
  if (suite.experiments.empty())
    throw ConfigError({.attempted = fmt::format("choosing experiments of the suite {}", suite.name),
                       .found = "none left by --only and --skip",
                       .expected = "at least one"});
}

}  // namespace sotto::lab
