#include "sotto/core/formats/nemo_archive.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "sotto/core/config/config_yaml.h"
#include "sotto/core/config/yaml_json.h"
#include "sotto/core/error.h"
#include "sotto/core/files/text_file.h"
#include "sotto/core/formats/gzip.h"
#include "sotto/core/formats/tar_reader.h"

namespace sotto {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNemoConfig = "model_config.yaml";
constexpr std::string_view kNemoWeights = "model_weights.ckpt";
constexpr std::string_view kNemoExpected =
    "a .nemo archive: a tar file with model_config.yaml, model_weights.ckpt and a tokenizer";
// Settings with a vocabulary of 100,000 entries in three places have 5 MB.
constexpr size_t kMaxConfigBytes = size_t{64} << 20;
// What NeMo puts before the name of a tokenizer's file in its settings.
constexpr std::string_view kOfArchive = "nemo:";

// Whether a file is a part, alone or after a hash.
bool has_name(std::string_view file, std::string_view part) {
  if (!file.ends_with(part)) return false;
  const size_t before = file.size() - part.size();
  return before == 0 || file[before - 1] == '_';
}

// Whether a name would leave the folder that an archive is unpacked into.
bool leaves_archive(const fs::path& name) {
  return name.is_absolute() ||
         std::ranges::any_of(name, [](const fs::path& part) { return part == ".."; });
}

// Such a name would reach the terminal in messages.
bool has_control_characters(std::string_view name) {
  return std::ranges::any_of(name,
                             [](unsigned char letter) { return letter < 0x20 || letter == 0x7f; });
}

void take_part(std::span<const std::byte>& part, const TarEntry& entry,
               std::span<const std::byte> content, const fs::path& path) {
  if (part.data() != nullptr)
    refuse_file(path, fmt::format("a second '{}'", entry.name), "one of each");
  part = content;
}

std::string listed_files(const NemoParts& parts) {
  constexpr size_t kMaxFiles = 8;
  std::vector<std::string> names;
  for (const auto& [name, bytes] : parts.others) names.push_back(name);
  const size_t count = names.size();
  if (count > kMaxFiles) {
    names.resize(kMaxFiles);
    names.push_back(fmt::format("and {} more", count - kMaxFiles));
  }
  return names.empty() ? "nothing else" : fmt::format("{}", fmt::join(names, ", "));
}

std::string_view text_in(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void check_parts(const NemoParts& parts, const fs::path& path) {
  for (const auto& [name, is_missing] : {std::pair(kNemoConfig, parts.config.data() == nullptr),
                                         {kNemoWeights, parts.weights.data() == nullptr}})
    if (is_missing)
      refuse_file(path, fmt::format("no {} in it, but {}", name, listed_files(parts)),
                  std::string(kNemoExpected));
  if (parts.config.size() > kMaxConfigBytes)
    refuse_file(path, fmt::format("a {} of {} bytes", kNemoConfig, parts.config.size()),
                fmt::format("at most {} bytes", kMaxConfigBytes));
  if (!is_utf8(parts.config))
    refuse_file(path, fmt::format("a {} that is not UTF-8", kNemoConfig), "YAML in UTF-8");
}

}  // namespace

bool is_nemo_file(const fs::path& path) {
  std::error_code ignored;
  return path.extension() == ".nemo" && !fs::is_directory(path, ignored);
}

NemoParts find_nemo_parts(std::span<const std::byte> archive, const fs::path& path) {
  NemoParts parts;
  std::span<const std::byte> config;
  walk_tar(archive, path, [&](const TarEntry& entry, size_t) {
    if (has_control_characters(entry.name))
      refuse_file(path, "a file whose name has control characters", "names that can be shown",
                  "Use an archive from a source that you trust.");
    if (leaves_archive(entry.name))
      refuse_file(path, fmt::format("a file '{}' outside of the archive", entry.name),
                  "names inside of it", "Use an archive from a source that you trust.");
    const auto content =
        archive.subspan(static_cast<size_t>(entry.offset), static_cast<size_t>(entry.size));
    const std::string name = fs::path(entry.name).filename().string();
    if (has_name(name, kNemoConfig)) {
      take_part(config, entry, content, path);
    } else if (has_name(name, kNemoWeights)) {
      take_part(parts.weights, entry, content, path);
    } else if (!parts.others.emplace(entry.name, content).second) {
      refuse_file(path, fmt::format("a second '{}'", entry.name), "each name once");
    }
  });
  parts.config = text_in(config);
  check_parts(parts, path);
  return parts;
}

nlohmann::json nemo_settings(const NemoParts& parts, const fs::path& path) {
  try {
    return json_of_yaml(parse_yaml(std::string(parts.config), std::string(kNemoConfig)));
  } catch (const ConfigError& error) {
    refuse_file(path, error.what(), "settings in YAML", /*hint=*/{});
  }
}

std::string nemo_tokenizer_name(const nlohmann::json& settings) {
  const auto tokenizer = settings.is_object() ? settings.find("tokenizer") : settings.end();
  if (tokenizer == settings.end() || !tokenizer->is_object()) return {};
  const auto name = tokenizer->find("model_path");
  return name != tokenizer->end() && name->is_string() ? name->get<std::string>() : std::string();
}

NemoArchive NemoArchive::open(const fs::path& path) {
  MappedFile file = MappedFile::open(path, std::string(kNemoExpected));
  if (file.bytes().empty()) refuse_file(path, "it is empty", std::string(kNemoExpected));
  const bool is_compressed = is_gzip(file.bytes());
  NemoArchive archive(
      path, is_compressed
                ? unpack_gzip(file.bytes(), path, max_unpacked_bytes(std::ssize(file.bytes())))
                : std::move(file));
  archive.was_compressed_ = is_compressed;
  archive.parts_ = find_nemo_parts(archive.file_.bytes(), path);
  return archive;
}

std::string_view NemoArchive::sentence_piece(const std::string& named) const {
  std::string_view wanted = named;
  if (wanted.starts_with(kOfArchive)) wanted.remove_prefix(kOfArchive.size());
  const auto found = parts_.others.find(wanted);
  if (found != parts_.others.end()) return text_in(found->second);
  std::vector<std::string> models;
  std::string_view model;
  for (const auto& [name, bytes] : parts_.others) {
    if (!name.ends_with(".model")) continue;
    models.push_back(name);
    model = text_in(bytes);
  }
  if (models.size() != 1)
    refuse_file(path_,
                models.empty()
                    ? fmt::format("no tokenizer.model in it, but {}", listed_files(parts_))
                    : fmt::format("several tokenizers: {}", fmt::join(models, ", ")),
                "one SentencePiece model");
  return model;
}

TorchFile NemoArchive::take_weights() {
  const std::span<const std::byte> weights = parts_.weights;
  parts_ = {};
  return TorchFile::inside(std::move(file_), weights, path_ / kNemoWeights);
}

}  // namespace sotto
