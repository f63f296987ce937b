#include "sotto/core/formats/weight_folder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/files/json_object.h"
#include "sotto/core/files/mapped_file.h"
#include "sotto/core/files/output_file.h"
#include "sotto/core/files/text_file.h"
#include "sotto/core/formats/nemo_archive.h"

namespace sotto {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexEnd = ".index.json";
constexpr std::array<std::string_view, 4> kKnownFiles = {
    "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
    "pytorch_model.bin.index.json"};

// True also for a dangling link, as an interrupted download leaves it: opening it reports the
// error.
bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

// Lists the content of a folder, for a message.
std::string listed(const fs::path& folder) {
  constexpr size_t kMaxListed = 8;
  std::error_code failed;
  std::vector<std::string> names;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    names.push_back(at->path().filename().string());
  }
  if (failed) return failed.message();
  if (names.empty()) return "the folder is empty";
  std::ranges::sort(names);
  const size_t count = names.size();
  if (count > kMaxListed) {
    names.resize(kMaxListed);
    names.push_back(fmt::format("and {} more", count - kMaxListed));
  }
  return fmt::format("the folder contains {}", fmt::join(names, ", "));
}

// Returns the shard of each tensor according to an index.
std::map<std::string, std::string> read_index(const fs::path& path) {
  const std::string text = read_text_file(path);
  const nlohmann::json index = parse_json_object(
      text,
      {.path = path, .part = "it", .expected = "an index of weights as transformers writes it"});
  const nlohmann::json map = index.value("weight_map", nlohmann::json());
  if (!map.is_object() || map.empty()) {
    refuse_file(path, fmt::format("weight_map {}", shown(map)), "the shard of each tensor");
  }
  std::map<std::string, std::string> shards;
  for (const auto& [name, shard] : map.items()) {
    // Must be a name in the folder itself, because otherwise an index could have any file read.
    const bool good = shard.is_string() && !shard.get<std::string>().empty() &&
                      shard.get<std::string>().find('\0') == std::string::npos &&
                      fs::path(shard.get<std::string>()).filename() == shard.get<std::string>();
    if (!good) {
      refuse_file(path, fmt::format("the tensor '{}' in {}", name, shown(shard)),
                  "the name of a file in the same folder");
    }
    shards.emplace(name, shard.get<std::string>());
  }
  return shards;
}

// Splits entries, in order, so that no file becomes too large.
std::vector<std::span<const SafetensorsEntry>> split(std::span<const SafetensorsEntry> entries,
                                                     int64_t max_bytes) {
  std::vector<std::span<const SafetensorsEntry>> shards;
  size_t first = 0;
  int64_t bytes = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const int64_t size = std::ssize(entries[i].bytes);
    if (i > first && size > max_bytes - bytes) {
      shards.push_back(entries.subspan(first, i - first));
      first = i;
      bytes = 0;
    }
    bytes += size;
  }
  shards.push_back(entries.subspan(first));
  return shards;
}

}  // namespace

WeightFolder WeightFolder::open(const fs::path& folder) {
  WeightFolder weights;
  weights.path_ = folder;
  if (is_nemo_file(folder)) {
    weights.opened_.emplace_back(NemoArchive::open(folder).take_weights());
    weights.add_tensors(folder);
    return weights;
  }
  if (is_openai_file(folder)) {
    weights.add_file(folder);
    return weights;
  }
  for (const std::string_view name : kKnownFiles) {
    const fs::path path = folder / name;
    if (!is_there(path)) continue;
    if (name.ends_with(kIndexEnd)) {
      weights.add_shards(path);
    } else {
      weights.add_file(path);
    }
    return weights;
  }
  throw DataError({.attempted = fmt::format("reading the weights in {}", folder.string()),
                   .found = listed(folder),
                   .expected = fmt::format("one of {}", fmt::join(kKnownFiles, ", ")),
                   .hint = "Name the folder of a Hugging Face model, with its weights."});
}

void WeightFolder::add_file(const fs::path& path) {
  if (path.extension() == ".safetensors") {
    opened_.emplace_back(SafetensorsFile::open(path));
  } else {
    opened_.emplace_back(TorchFile::open(path));
  }
  add_tensors(path);
}

// Adds the tensors of the file that was opened last.
void WeightFolder::add_tensors(const fs::path& path) {
  const size_t number = files_.size();
  files_.push_back(path);
  std::visit(
      [&](const auto& file) {
        for (const std::string& name : file.names()) {
          const auto [entry, is_new] =
              tensors_.emplace(name, StoredTensor{.view = file.find(name), .file = number});
          if (is_new) continue;
          refuse_file(path,
                      fmt::format("the tensor '{}', which {} has too", name,
                                  files_[entry->second.file].filename().string()),
                      "each tensor in one shard");
        }
      },
      opened_.back());
}

void WeightFolder::add_shards(const fs::path& index) {
  const std::map<std::string, std::string> shards = read_index(index);
  std::set<std::string> names;
  for (const auto& [tensor, shard] : shards) names.insert(shard);
  for (const std::string& name : names) {
    const fs::path path = index.parent_path() / name;
    std::error_code ignored;
    if (!fs::exists(path, ignored)) {
      refuse_file(index, fmt::format("the shard {} is missing", name),
                  fmt::format("all {} shards in the same folder", names.size()));
    }
    add_file(path);
  }
  for (const auto& [tensor, shard] : shards) {
    const auto found = tensors_.find(tensor);
    if (found == tensors_.end() || files_[found->second.file].filename() != shard) {
      refuse_file(index, fmt::format("the tensor '{}' is not in {}", tensor, shard),
                  "each tensor in the shard that it names");
    }
  }
}

std::vector<std::string> WeightFolder::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

const TensorView* WeightFolder::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second.view;
}

const fs::path& WeightFolder::path_of(std::string_view name) const {
  const auto found = tensors_.find(name);
  SOTTO_ASSERT(found != tensors_.end(), "there is no tensor '{}'", name);
  return files_[found->second.file];
}

void write_weight_folder(const fs::path& folder, std::span<const SafetensorsEntry> entries,
                         const WeightFolderOptions& options) {
  const auto shards = split(entries, options.max_shard_bytes);
  if (shards.size() == 1) {
    write_safetensors(folder / "model.safetensors", entries, options.metadata, options.fetch);
    return;
  }
  nlohmann::json map = nlohmann::json::object();
  int64_t total_bytes = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    for (const SafetensorsEntry& entry : shards[i]) {
      SOTTO_ASSERT(map.emplace(entry.name, name).second, "two tensors are named '{}'", entry.name);
      total_bytes += std::ssize(entry.bytes);
    }
    write_safetensors(folder / name, shards[i], options.metadata, options.fetch);
  }
  const nlohmann::json index = {{"metadata", {{"total_size", total_bytes}}}, {"weight_map", map}};
  const std::string text = index.dump(2, ' ', /*ensure_ascii=*/true) + "\n";
  write_file(folder / "model.safetensors.index.json", std::as_bytes(std::span(text)));
}

}  // namespace sotto
