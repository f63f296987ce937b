// Small facts that took time to find out, by key in one JSON file of the user's cache folder.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace sotto {

class JsonCache {
 public:
  explicit JsonCache(std::filesystem::path file) : file_(std::move(file)) {}
  // A file of the user's cache folder.
  static JsonCache named(const std::string& name);

  // Nothing where the file is absent or of no use.
  std::optional<nlohmann::json> find(const std::string& key) const;
  // A cache that cannot be written is no error: what it would hold is found out again.
  void store(const std::string& key, nlohmann::json value) const;

 private:
  nlohmann::json read() const;

  std::filesystem::path file_;
};

}  // namespace sotto
