// NeMo's tarred shards: a manifest whose audio_filepath names a file in audio_N.tar, where N is
// shard_id. Each becomes "audio_N.tar:name", the form of our manifests.
#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "sotto/core/error.h"
#include "sotto/core/files/text_file.h"
#include "sotto/data/audio/tar_shards.h"
#include "sotto/data/import/import_sources.h"
#include "sotto/data/text/text_lines.h"

namespace sotto::data {

namespace {

namespace fs = std::filesystem;

// The parts of "audio_{0..7}.tar". NeMo has four more notations for the braces, for shells that
// would interpret them.
struct TarPattern {
  std::string front, back;
  int64_t first = 0, last = 0;
  // Minimum number of digits: 00 to 15.
  int width = 1;
  // One archive for all shards.
  bool is_single = false;

  // Returns the archive of a shard; std::nullopt if it is outside of the range.
  std::optional<std::string> archive(int64_t shard) const {
    if (is_single) return front;
    if (shard < first || shard > last) return std::nullopt;
    return fmt::format("{}{:0{}}{}", front, shard, width, back);
  }
};

// Removes a number such as "12" from the front.
std::optional<int64_t> take_count(std::string_view& text, int& width) {
  int64_t number = 0;
  const auto [last, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc{} || number < 0) return std::nullopt;
  width = static_cast<int>(last - text.data());
  text.remove_prefix(static_cast<size_t>(width));
  return number;
}

TarPattern parse_pattern(const std::string& pattern) {
  using Brackets = std::pair<std::string_view, std::string_view>;
  for (const auto& [open, close] : {Brackets{"{", "}"}, Brackets{"_OP_", "_CL_"},
                                    Brackets{"(", ")"}, Brackets{"[", "]"}, Brackets{"<", ">"}}) {
    const size_t at = pattern.find(open);
    if (at == std::string::npos) continue;
    std::string_view rest = std::string_view(pattern).substr(at + open.size());
    int width = 0, last_width = 0;
    const std::optional<int64_t> first = take_count(rest, width);
    if (!first || !rest.starts_with("..")) continue;
    rest.remove_prefix(2);
    const std::optional<int64_t> last = take_count(rest, last_width);
    if (!last || *last < *first || !rest.starts_with(close)) continue;
    rest.remove_prefix(close.size());
    // "0..15" has no leading zeros, "00..15" has.
    return {.front = pattern.substr(0, at),
            .back = std::string(rest),
            .first = *first,
            .last = *last,
            .width = width == last_width ? width : 1};
  }
  return {.front = pattern, .back = {}, .is_single = true};
}

// Returns the name in the archive. NeMo looks files up without their extension, and calls the
// second segment of a.wav "a-sub1.wav" although it is stored once.
std::optional<std::string> name_inside(TarShards& shards, const fs::path& archive,
                                       const std::string& name) {
  const auto is_there = [&](const std::string& other) {
    return shards.contains({.archive = archive, .name = other});
  };
  if (is_there(name)) return name;
  const fs::path path(name);
  std::string stem = (path.parent_path() / path.stem()).string();
  const size_t sub = stem.rfind("-sub");
  const bool is_sub = sub != std::string::npos && sub + 4 < stem.size() &&
                      stem.find_first_not_of("0123456789", sub + 4) == std::string::npos;
  for (int round = 0; round < (is_sub ? 2 : 1); ++round) {
    if (round == 1) stem.resize(sub);
    for (const std::string& extension :
         {path.extension().string(), std::string(".wav"), std::string(".flac"), std::string(".ogg"),
          std::string(".opus"), std::string(".mp3")}) {
      if (is_there(stem + extension)) return stem + extension;
    }
  }
  return std::nullopt;
}

std::string text_at(const nlohmann::json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

// Reads the fields of a line except for the file; returns an error message.
std::string take_line(const nlohmann::json& object, ImportItem& item) {
  if (text_at(object, "audio_filepath").empty()) return "no audio_filepath";
  if (!object.contains("text") || !object.at("text").is_string()) return "no text";
  item.text = text_at(object, "text");
  item.speaker = text_at(object, "speaker");
  item.lang = text_at(object, "lang");
  for (const char* key : {"duration", "offset"}) {
    const auto at = object.find(key);
    if (at == object.end() || at->is_null()) continue;
    if (!at->is_number() || at->get<double>() < 0.0)
      return fmt::format("{} is {}", key, at->dump());
    if (std::string_view(key) == "duration") {
      item.duration_s = at->get<double>();
    } else {
      item.offset_s = at->get<double>();
    }
  }
  return {};
}

class TarredManifest {
 public:
  explicit TarredManifest(const ImportRequest& request) : request_(request) {
    list_.name = request.source.filename().string();
    const std::string beside = (request.source.parent_path() / "audio_{0..99999999}.tar").string();
    pattern_ = parse_pattern(request.options.tar.empty() ? beside : request.options.tar);
  }

  ImportList read() {
    TextLines lines(request_.source, "a NeMo manifest");
    while (const std::optional<std::string_view> line = lines.next()) {
      if (trimmed(*line).empty()) continue;
      ImportItem item;
      item.line = lines.number();
      const std::string fault = take(*line, item);
      if (fault.empty()) {
        list_.items.push_back(std::move(item));
      } else {
        list_.refuse(lines.number(), fault);
      }
    }
    return std::move(list_);
  }

 private:
  std::string take(std::string_view line, ImportItem& item) {
    if (!is_utf8(line)) return "not UTF-8";
    const nlohmann::json object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) return "not a JSON object";
    std::string fault = take_line(object, item);
    if (!fault.empty()) return fault;
    const auto shard = object.find("shard_id");
    const bool has_shard = shard != object.end() && shard->is_number_integer();
    if (!has_shard && !pattern_.is_single) return "no shard_id, and --tar names several archives";
    const std::optional<std::string> archive =
        pattern_.archive(has_shard ? shard->get<int64_t>() : 0);
    if (!archive)
      return fmt::format("shard_id {} is not in {}", shard->dump(), request_.options.tar);
    const std::string name = text_at(object, "audio_filepath");
    try {
      const std::optional<std::string> inside = name_inside(shards_, *archive, name);
      if (!inside) return fmt::format("no file '{}' in {}", name, *archive);
      item.file = fmt::format("{}:{}", *archive, *inside);
    } catch (const DataError& error) {
      return error.what();
    }
    return {};
  }

  const ImportRequest& request_;
  TarPattern pattern_;
  TarShards shards_;
  ImportList list_;
};

}  // namespace

ImportList list_nemo_tarred(const ImportRequest& request) {
  return TarredManifest(request).read();
}

}  // namespace sotto::data
