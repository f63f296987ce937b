#include "sotto/models/parakeet/nemo_settings.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "sotto/core/files/json_object.h"

namespace sotto::models {

namespace {

JsonSettings open_part(const nlohmann::json& settings, const char* part, const std::string& name,
                       const std::filesystem::path& archive) {
  const auto found = settings.find(part);
  const bool is_there = found != settings.end() && !found->is_null();
  return {is_there ? *found : nlohmann::json::object(),
          fmt::format("reading {}: `{}` of model_config.yaml", archive.string(), name)};
}

bool is_off(const nlohmann::json& value) {
  return value.is_null() || value == false || value == 0 || value == "" ||
         ((value.is_array() || value.is_object()) && value.empty());
}

template <class T>
bool is_same_value(const T& a, const T& b) {
  if constexpr (std::is_floating_point_v<T>) return std::abs(a - b) <= 1e-6 * std::abs(b);
  return a == b;
}

}  // namespace

NemoSettings::NemoSettings(const nlohmann::json& settings, const char* part,
                           const std::filesystem::path& archive)
    : NemoSettings(open_part(settings, part, part, archive), part, archive) {}

NemoSettings NemoSettings::part(const char* key) {
  known_.insert(key);
  std::string name = fmt::format("{}.{}", name_, key);
  JsonSettings settings = open_part(values(), key, name, archive_);
  return {std::move(settings), std::move(name), archive_};
}

template <class T>
void NemoSettings::require(const char* key, const T& only, const T& usual) {
  if (is_same_value(get(key, usual), only)) return;
  refuse(
      settings_.has(key) ? shown(key) : fmt::format("no \"{}\", which is {} in NeMo", key, usual),
      fmt::format("{}", only));
}

template void NemoSettings::require(const char*, const bool&, const bool&);
template void NemoSettings::require(const char*, const int64_t&, const int64_t&);
template void NemoSettings::require(const char*, const double&, const double&);
template void NemoSettings::require(const char*, const std::string&, const std::string&);

void NemoSettings::require_off(const char* key) {
  if (has(key) && !is_off(values().at(key))) refuse(shown(key), "none: it is not supported");
}

void NemoSettings::require_class(std::string_view name) {
  const auto target = get<std::string>("_target_", std::string(name));
  const std::string_view last = std::string_view(target).substr(target.rfind('.') + 1);
  if (last != name) refuse(shown("_target_"), std::string(name));
}

void NemoSettings::finish() const {
  for (const auto& [key, value] : values().items()) {
    if (known_.contains(key) || is_off(value)) continue;
    refuse(fmt::format("the setting {}", shown(key.c_str())),
           "settings of networks that can be built here; this one is not known");
  }
}

}  // namespace sotto::models
