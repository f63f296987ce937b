// Settings that another program wrote as a JSON object, such as a config.json of transformers. Each
// is read by name and type; if it is absent or null, the default of that program applies.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace sotto {

class JsonSettings {
 public:
  // Reads a file; `attempted` states the purpose in errors. Throws DataError where it is not a JSON
  // object.
  JsonSettings(const std::filesystem::path& path, std::string attempted);
  // Wraps an object that is part of a file.
  JsonSettings(nlohmann::json object, std::string attempted);

  // Returns a setting. T: bool, int64_t, double, std::string or std::vector<int64_t>. Throws
  // ConfigError where the value has another type.
  template <class T>
  T get(const char* key, T fallback) const;

  bool has(const char* key) const;
  // Returns whether the key is present, even if its value is null.
  bool names(const char* key) const { return values_.contains(key); }
  const nlohmann::json& values() const { return values_; }

  // Throws ConfigError.
  [[noreturn]] void refuse(const std::string& found, const std::string& expected) const;
  // Returns `"key": value` for error messages.
  std::string shown(const char* key) const;

 private:
  std::string attempted_;
  nlohmann::json values_;
};

}  // namespace sotto
