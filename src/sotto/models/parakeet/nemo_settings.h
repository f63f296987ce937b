// The settings of one part of a network in NeMo's model_config.yaml, such as `encoder`. Every
// setting is read, required to have one value, or ignored; finish() refuses all others by name,
// unless they are switched off.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "sotto/core/config/json_settings.h"

namespace sotto::models {

class NemoSettings {
 public:
  // Opens a part of `settings`; a missing one is empty. `archive` is for errors.
  NemoSettings(const nlohmann::json& settings, const char* part,
               const std::filesystem::path& archive);

  // Returns a setting, or the default of NeMo. See JsonSettings.
  template <class T>
  T get(const char* key, T usual) {
    known_.insert(key);
    return settings_.get(key, std::move(usual));
  }
  // Returns a fraction, which may be written as a whole number.
  double get_number(const char* key, double usual) { return get<double>(key, usual); }
  bool has(const char* key) {
    known_.insert(key);
    return settings_.has(key);
  }
  const nlohmann::json& values() const { return settings_.values(); }

  // Throws ConfigError for another value. `usual`: the default of NeMo.
  template <class T>
  void require(const char* key, const T& only, const T& usual);
  template <class T>
  void require(const char* key, const T& only) {
    require(key, only, only);
  }
  void require(const char* key, const char* only, const char* usual) {
    require(key, std::string(only), std::string(usual));
  }
  // Throws ConfigError unless the setting is null, false, 0 or empty.
  void require_off(const char* key);
  // Throws ConfigError unless the part is built by this class of NeMo.
  void require_class(std::string_view name);
  // Settings that do not change the network here.
  void ignore(std::initializer_list<const char*> keys) { known_.insert(keys.begin(), keys.end()); }

  // Opens a part of this part.
  NemoSettings part(const char* key);

  // Throws ConfigError for a setting that nobody asked for, unless it is off.
  void finish() const;

  [[noreturn]] void refuse(const std::string& found, const std::string& expected) const {
    settings_.refuse(found, expected);
  }
  std::string shown(const char* key) const { return settings_.shown(key); }

 private:
  NemoSettings(JsonSettings settings, std::string name, std::filesystem::path archive)
      : settings_(std::move(settings)), name_(std::move(name)), archive_(std::move(archive)) {}

  JsonSettings settings_;
  std::string name_;
  std::filesystem::path archive_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace sotto::models
