#include "sotto/nn/layer_tiers.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/nearest.h"
#include "sotto/core/words.h"

namespace sotto::nn {

namespace {

[[noreturn]] void refuse(std::string_view text, const std::string& found, std::string hint = {}) {
  std::vector<std::string_view> names;
  for (const Named<Tier>& entry : kTiers) names.push_back(entry.name);
  throw ConfigError(
      {.attempted = fmt::format("setting the tier '{}'", text),
       .found = found,
       .expected = fmt::format("one of {}; or groups of layers from the first on, such as "
                               "'12 block, norms'",
                               fmt::join(names, ", ")),
       .hint = std::move(hint)});
}

Tier tier_named(std::string_view name, std::string_view text) {
  std::vector<std::string> names;
  for (const Named<Tier>& entry : kTiers) {
    if (entry.name == name) return entry.value;
    names.emplace_back(entry.name);
  }
  const std::optional<std::string> meant = nearest(name, names);
  refuse(text, fmt::format("'{}'", name), meant ? fmt::format("Did you mean '{}'?", *meant) : "");
}

// Parses "12 block", or a tier alone, for which the number of layers is 0.
LayerTiers::Group parse_group(std::string_view part, std::string_view text) {
  int64_t count = 0;
  const auto [stop, code] = std::from_chars(part.data(), part.data() + part.size(), count);
  if (stop == part.data()) return {.num_layers = 0, .tier = tier_named(part, text)};
  if (code != std::errc{} || count < 1) refuse(text, fmt::format("'{}'", part));
  const std::string_view name = trimmed(part.substr(static_cast<size_t>(stop - part.data())));
  return {.num_layers = count, .tier = tier_named(name, text)};
}

}  // namespace

LayerTiers::LayerTiers(std::vector<Group> groups, Tier rest)
    : groups_(std::move(groups)), rest_(rest) {
  // Normal form: no empty group, no adjacent groups of the same tier.
  std::erase_if(groups_, [](const Group& group) { return group.num_layers == 0; });
  for (size_t i = 1; i < groups_.size();) {
    if (groups_[i].tier == groups_[i - 1].tier) {
      groups_[i - 1].num_layers += groups_[i].num_layers;
      groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  if (!groups_.empty() && groups_.back().tier == rest_) groups_.pop_back();
}

LayerTiers LayerTiers::parse(std::string_view text) {
  std::vector<Group> groups;
  std::optional<Tier> rest;
  for (std::string_view left = text; !rest;) {
    const size_t comma = left.find(',');
    const Group group = parse_group(trimmed(left.substr(0, comma)), text);
    const bool is_last = comma == std::string_view::npos;
    if (!is_last && group.num_layers == 0)
      refuse(text, "a tier without its number of layers before the last");
    if (group.num_layers > 0) groups.push_back(group);
    if (is_last) rest = group.tier;
    left.remove_prefix(is_last ? left.size() : comma + 1);
  }
  return {std::move(groups), *rest};
}

std::string LayerTiers::to_string() const {
  std::string text;
  for (const Group& group : groups_)
    text += fmt::format("{} {}, ", group.num_layers, name_of(group.tier, kTiers));
  return text + std::string(name_of(rest_, kTiers));
}

Tier LayerTiers::of(int64_t layer) const {
  for (const Group& group : groups_) {
    if (layer < group.num_layers) return group.tier;
    layer -= group.num_layers;
  }
  return rest_;
}

std::vector<Tier> LayerTiers::first(int64_t num_layers) const {
  std::vector<Tier> tiers;
  for (int64_t layer = 0; layer < num_layers; ++layer) tiers.push_back(of(layer));
  return tiers;
}

void LayerTiers::check(int64_t num_layers) const {
  int64_t named = 0;
  for (const Group& group : groups_) named += group.num_layers;
  if (named <= num_layers) return;
  throw ConfigError({.attempted = fmt::format("setting the tier '{}'", to_string()),
                     .found = fmt::format("it covers {} layers", named),
                     .expected = fmt::format("at most {}, counting those before and after the "
                                             "blocks",
                                             num_layers)});
}

bool LayerTiers::has(Tier tier) const {
  return rest_ == tier ||
         std::ranges::any_of(groups_, [&](const Group& group) { return group.tier == tier; });
}

}  // namespace sotto::nn
