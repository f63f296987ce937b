#include "sotto/core/files/json_cache.h"

#include <span>
#include <utility>

#include "sotto/core/files/cache_folder.h"
#include "sotto/core/files/log.h"
#include "sotto/core/files/output_file.h"
#include "sotto/core/files/text_file.h"

namespace sotto {

JsonCache JsonCache::named(const std::string& name) {
  return JsonCache(cache_folder() / name);
}

nlohmann::json JsonCache::read() const {
  try {
    nlohmann::json all = nlohmann::json::parse(read_text_file(file_));
    if (all.is_object()) return all;
  } catch (const std::exception& error) {
    spdlog::debug("{} is not used: {}", file_.string(), error.what());
  }
  return nlohmann::json::object();
}

std::optional<nlohmann::json> JsonCache::find(const std::string& key) const {
  const nlohmann::json all = read();
  const auto found = all.find(key);
  return found == all.end() ? std::nullopt : std::optional<nlohmann::json>(*found);
}

void JsonCache::store(const std::string& key, nlohmann::json value) const {
  nlohmann::json all = read();
  all[key] = std::move(value);
  const std::string text = all.dump(2) + "\n";
  try {
    std::filesystem::create_directories(file_.parent_path());
    OutputFile file = OutputFile::create(file_);
    file.write(std::as_bytes(std::span(text)));
    file.close();
  } catch (const std::exception& error) {
    spdlog::debug("{} was not written: {}", file_.string(), error.what());
  }
}

}  // namespace sotto
