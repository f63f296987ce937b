#include "sotto/core/config/json_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/files/json_object.h"
#include "sotto/core/files/text_file.h"

namespace sotto {

namespace {

// Requirements on a setting that is converted to a T.
template <class T>
struct Setting;
template <>
struct Setting<bool> {
  static constexpr const char* kExpected = "true or false";
  static bool holds(const nlohmann::json& value) { return value.is_boolean(); }
};
template <>
struct Setting<int64_t> {
  static constexpr const char* kExpected = "a whole number";
  static bool holds(const nlohmann::json& value) { return value.is_number_integer(); }
};
template <>
struct Setting<double> {
  static constexpr const char* kExpected = "a number";
  static bool holds(const nlohmann::json& value) { return value.is_number(); }
};
template <>
struct Setting<std::string> {
  static constexpr const char* kExpected = "a word";
  static bool holds(const nlohmann::json& value) { return value.is_string(); }
};
template <>
struct Setting<std::vector<int64_t>> {
  static constexpr const char* kExpected = "a list of whole numbers";
  static bool holds(const nlohmann::json& value) {
    return value.is_array() && std::ranges::all_of(value, Setting<int64_t>::holds);
  }
};

}  // namespace

JsonSettings::JsonSettings(const std::filesystem::path& path, std::string attempted)
    : attempted_(std::move(attempted)),
      values_(parse_json_object(
          read_text_file(path),
          {.path = path, .part = "it", .expected = "settings, as transformers writes them"})) {}

JsonSettings::JsonSettings(nlohmann::json object, std::string attempted)
    : attempted_(std::move(attempted)), values_(std::move(object)) {
  if (!values_.is_object()) refuse(sotto::shown(values_), "a JSON object of settings");
}

template <class T>
T JsonSettings::get(const char* key, T fallback) const {
  if (!has(key)) return fallback;
  const nlohmann::json& value = values_.at(key);
  if (!Setting<T>::holds(value)) refuse(shown(key), Setting<T>::kExpected);
  return value.get<T>();
}

template bool JsonSettings::get(const char*, bool) const;
template int64_t JsonSettings::get(const char*, int64_t) const;
template double JsonSettings::get(const char*, double) const;
template std::string JsonSettings::get(const char*, std::string) const;
template std::vector<int64_t> JsonSettings::get(const char*, std::vector<int64_t>) const;

bool JsonSettings::has(const char* key) const {
  const auto found = values_.find(key);
  return found != values_.end() && !found->is_null();
}

void JsonSettings::refuse(const std::string& found, const std::string& expected) const {
  throw ConfigError({.attempted = attempted_, .found = found, .expected = expected});
}

std::string JsonSettings::shown(const char* key) const {
  if (!names(key)) return fmt::format("no \"{}\"", key);
  return fmt::format("\"{}\": {}", key, sotto::shown(values_.at(key)));
}

}  // namespace sotto
