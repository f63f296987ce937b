#include "sotto/models/hugging_face_format.h"

#include <fmt/format.h>

#include <span>

#include "sotto/core/files/output_file.h"

namespace sotto::models {

namespace fs = std::filesystem;

JsonSettings open_hub_config(const fs::path& path) {
  return {path, fmt::format("reading the model of {}", path.string())};
}

// Opens the settings of the feature extractor where transformers looks for them: inside
// processor_config.json, which it writes since version 5, else in preprocessor_config.json.
std::optional<JsonSettings> open_extractor(const fs::path& folder) {
  if (fs::exists(folder / kHubProcessor)) {
    const JsonSettings processor = open_hub_config(folder / kHubProcessor);
    for (const char* key : {"feature_extractor", "audio_processor"}) {
      if (!processor.names(key)) continue;
      return JsonSettings(
          processor.values().at(key),
          fmt::format("reading the {} of {}", key, (folder / kHubProcessor).string()));
    }
  }
  if (fs::exists(folder / kHubPreprocessor)) return open_hub_config(folder / kHubPreprocessor);
  return std::nullopt;
}

void write_hub_json(const fs::path& path, const nlohmann::ordered_json& values) {
  const std::string text = values.dump(2) + "\n";
  write_file(path, std::as_bytes(std::span(text)));
}

}  // namespace sotto::models
