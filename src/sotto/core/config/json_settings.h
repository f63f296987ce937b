// Settings that another program wrote as a JSON object, such as a config.json of transformers: each
// is taken by its name and type, and where it is absent or null by the value that program takes
// then.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace sotto {

class JsonSettings {
 public:
  // Reads a file; `attempted` says what for, in errors. Throws DataError where it is no JSON
  // object.
  JsonSettings(const std::filesystem::path& path, std::string attempted);
  // An object inside of a file.
  JsonSettings(nlohmann::json object, std::string attempted);

  // T: bool, int64_t, double, std::string or std::vector<int64_t>. Throws ConfigError where the
  // value is of another type.
  template <class T>
  T get(const char* key, T fallback) const;

  bool has(const char* key) const;
  // Whether the key is there, also where it is null.
  bool names(const char* key) const { return values_.contains(key); }
  const nlohmann::json& values() const { return values_; }

  // Throws ConfigError.
  [[noreturn]] void refuse(const std::string& found, const std::string& expected) const;
  // "key": value, for errors.
  std::string shown(const char* key) const;

 private:
  std::string attempted_;
  nlohmann::json values_;
};

}  // namespace sotto
