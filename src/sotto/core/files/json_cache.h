// Cache of small results that are expensive to compute: one JSON file in the user's cache folder.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace sotto {

class JsonCache {
 public:
  explicit JsonCache(std::filesystem::path file) : file_(std::move(file)) {}
  // Opens a file in the user's cache folder.
  static JsonCache named(const std::string& name);

  // Returns std::nullopt if the file is absent or unusable.
  std::optional<nlohmann::json> find(const std::string& key) const;
  // Stores a value. A cache that cannot be written is not an error: the value is computed again.
  void store(const std::string& key, nlohmann::json value) const;

 private:
  nlohmann::json read() const;

  std::filesystem::path file_;
};

}  // namespace sotto
