#include "sotto/data/manifest/manifest_paths.h"

#include <nlohmann/json.hpp>
#include <system_error>

namespace sotto::data {

namespace {

namespace fs = std::filesystem;

fs::path with_links_followed(const fs::path& path) {
  std::error_code failed;
  const fs::path real = fs::weakly_canonical(path, failed);
  return failed ? path : real;
}

}  // namespace

ManifestPaths::ManifestPaths(const fs::path& folder)
    : folder_(fs::absolute((folder.empty() ? "." : folder) / "").lexically_normal()),
      real_folder_(with_links_followed(folder_) / "") {}

std::string ManifestPaths::name_of(const fs::path& file) {
  const fs::path absolute = fs::absolute(file).lexically_normal();
  const fs::path below = absolute.lexically_relative(folder_);
  if (!below.empty() && *below.begin() != "..") return below.string();
  // After a link ".." does not lead to the textual parent.
  if (absolute.parent_path() != last_parent_) {
    last_parent_ = absolute.parent_path();
    last_real_parent_ = with_links_followed(last_parent_);
  }
  const fs::path real = last_real_parent_ / absolute.filename();
  const fs::path relative = real.lexically_relative(real_folder_);
  auto shared = ++real.begin();
  const bool shares_more_than_root = shared != real.end() && real_folder_.has_relative_path() &&
                                     *shared == *++real_folder_.begin();
  return shares_more_than_root && !relative.empty() ? relative.string() : real.string();
}

std::string with_file(std::string_view line, std::string_view key, const std::string& file) {
  // The value and its location. For a duplicate key the last one counts, as in the parser.
  std::string_view value;
  size_t value_at = 0;
  int64_t depth = 0;
  // Whether the previous string was the key.
  bool is_value = false;
  for (size_t at = 0; at < line.size(); ++at) {
    const char letter = line[at];
    if (letter == '{' || letter == '[') ++depth;
    if (letter == '}' || letter == ']') --depth;
    if (letter == ',') is_value = false;
    if (letter != '"') continue;
    size_t end = at + 1;
    while (end < line.size() && line[end] != '"') end += line[end] == '\\' ? 2 : 1;
    SOTTO_ASSERT(end < line.size(), "a line that is no JSON");
    const std::string_view text = line.substr(at, end + 1 - at);
    if (depth == 1 && is_value) {
      value = text;
      value_at = at;
    }
    const size_t after = line.find_first_not_of(" \t\r\n", end + 1);
    const bool is_key = after != std::string_view::npos && line[after] == ':';
    is_value = depth == 1 && is_key && nlohmann::json::parse(text) == key;
    at = end;
  }
  SOTTO_ASSERT(!value.empty(), "a line without {}", key);
  return std::string(line).replace(value_at, value.size(), nlohmann::json(file).dump());
}

std::string moved_line(const Manifest& manifest, int64_t utterance, ManifestPaths& paths) {
  std::string line = manifest.line_of(utterance);
  const Utterance parsed = manifest.at(utterance);
  if (!std::filesystem::path(parsed.file).is_relative()) return line;
  const std::string name = paths.name_of(manifest.path_of(parsed));
  const char* key = parsed.feature_dim > 0 ? "feature_filepath" : "audio_filepath";
  if (std::filesystem::path(name) == std::filesystem::path(parsed.file).lexically_normal())
    return line;
  return with_file(line, key, name);
}

}  // namespace sotto::data
