#include "sotto/data/manifest.h"

#include <cerrno>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "sotto/core/error.h"
#include "sotto/core/text_file.h"

namespace sotto::data {

namespace {

using nlohmann::json;

constexpr std::string_view kSourceHint =
    "An utterance has audio_filepath, or feature_filepath with frame_offset, num_frames and "
    "feature_dim.";

// FNV-1a, 64 bits.
class Fingerprint {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) {
      value_ ^= static_cast<unsigned char>(byte);
      value_ *= 0x100000001b3;
    }
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

std::string shortened(const std::string& text) {
  constexpr size_t kMost = 60;
  if (text.size() <= kMost) return text;
  size_t end = kMost;
  // Not inside a character of several bytes.
  while ((static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end) + "...";
}

// One line, and the ways to complain about it.
class Line {
 public:
  Line(const std::filesystem::path& path, int64_t number, const std::string& text)
      : path_(path), number_(number) {
    if (!is_utf8(text)) refuse("not UTF-8", "text in UTF-8");
    object_ = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (object_.is_discarded()) refuse(fmt::format("not JSON: {}", shortened(text)), kObject);
    if (!object_.is_object())
      refuse(fmt::format("{}, not an object: {}", object_.type_name(), shortened(text)), kObject);
  }

  int64_t number() const { return number_; }
  bool has(const char* key) const { return object_.contains(key); }

  std::string text(const char* key) const {
    const json& value = require(key);
    if (!value.is_string()) refuse_value(key, value, "a string");
    return value.get<std::string>();
  }
  // Empty where it is absent; NeMo's tools write null for what they do not know.
  std::string optional_text(const char* key) const {
    return has(key) && !object_.at(key).is_null() ? text(key) : std::string();
  }
  std::string file(const char* key) const {
    std::string name = text(key);
    if (name.empty()) refuse_value(key, object_.at(key), "the name of a file");
    return name;
  }
  double seconds(const char* key) const {
    const json& value = require(key);
    if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() < 0.0)
      refuse_value(key, value, "seconds, a number that is not negative");
    return value.get<double>();
  }
  int64_t count(const char* key, int64_t least) const {
    const json& value = require(key);
    if (!value.is_number_integer() || value.get<int64_t>() < least)
      refuse_value(key, value, fmt::format("a whole number of at least {}", least));
    return value.get<int64_t>();
  }

  [[noreturn]] void refuse_value(const char* key, const json& value,
                                 std::string_view expected) const {
    refuse(fmt::format("{} is {}", key, shortened(value.dump())), expected);
  }
  [[noreturn]] void refuse(const std::string& found, std::string_view expected,
                           std::string_view hint = {}) const {
    throw DataError({.attempted = fmt::format("reading {}", path_.string()),
                     .found = fmt::format("line {}: {}", number_, found),
                     .expected = std::string(expected),
                     .hint = std::string(hint)});
  }

 private:
  static constexpr std::string_view kObject = "a JSON object on each line";

  const json& require(const char* key) const {
    if (!has(key)) refuse(fmt::format("no key '{}'", key), "one", kSourceHint);
    return object_.at(key);
  }

  const std::filesystem::path& path_;
  int64_t number_;
  json object_;
};

void take_source(const Line& line, Utterance& utterance) {
  const bool has_audio = line.has("audio_filepath");
  const bool has_features = line.has("feature_filepath");
  if (has_audio && has_features)
    line.refuse("both audio_filepath and feature_filepath", "one of them", kSourceHint);
  if (!has_audio && !has_features)
    line.refuse("neither audio_filepath nor feature_filepath", "one of them", kSourceHint);
  if (has_audio) {
    utterance.file = line.file("audio_filepath");
    if (line.has("offset")) utterance.offset_s = line.seconds("offset");
    return;
  }
  utterance.file = line.file("feature_filepath");
  utterance.frame_offset = line.count("frame_offset", 0);
  utterance.num_frames = line.count("num_frames", 1);
  utterance.feature_dim = line.count("feature_dim", 1);
}

Utterance take_utterance(const Line& line) {
  Utterance utterance;
  utterance.line = line.number();
  take_source(line, utterance);
  utterance.duration_s = line.seconds("duration");
  if (utterance.duration_s == 0.0) line.refuse("duration is 0", "seconds, a number above 0");
  utterance.text = line.text("text");
  utterance.speaker = line.optional_text("speaker");
  utterance.lang = line.optional_text("lang");
  return utterance;
}

std::string kind_of(const Utterance& utterance) {
  if (utterance.feature_dim == 0) return "audio";
  return fmt::format("features of dimension {}", utterance.feature_dim);
}

void check_same_kind(const Line& line, const Utterance& first, const Utterance& utterance) {
  if (utterance.feature_dim == first.feature_dim) return;
  line.refuse(kind_of(utterance), fmt::format("{}, as on line {}", kind_of(first), first.line),
              "A manifest is of one kind.");
}

[[noreturn]] void refuse_file(const std::filesystem::path& path, const std::string& found) {
  throw DataError({.attempted = fmt::format("reading {}", path.string()),
                   .found = found,
                   .expected = "a manifest: JSON lines, one utterance a line"});
}

}  // namespace

Manifest Manifest::read(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) refuse_file(path, "it is a folder");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse_file(path, std::generic_category().message(errno));
  Manifest manifest;
  manifest.path_ = path;
  Fingerprint fingerprint;
  std::string text;
  for (int64_t number = 1; std::getline(file, text); ++number) {
    fingerprint.add(text);
    fingerprint.add("\n");
    if (number == 1 && text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Line line(path, number, text);
    manifest.utterances_.push_back(take_utterance(line));
    check_same_kind(line, manifest.utterances_.front(), manifest.utterances_.back());
  }
  if (file.bad()) refuse_file(path, "it could not be read to its end");
  if (manifest.utterances_.empty()) refuse_file(path, "no utterance");
  manifest.fingerprint_ = fingerprint.value();
  return manifest;
}

std::filesystem::path Manifest::path_of(const Utterance& utterance) const {
  return path_.parent_path() / utterance.file;  // an absolute one stays what it is
}

std::vector<std::string_view> Manifest::texts() const {
  std::vector<std::string_view> texts;
  for (const Utterance& utterance : utterances_) texts.emplace_back(utterance.text);
  return texts;
}

const Utterance& Manifest::at(int64_t utterance) const {
  SOTTO_ASSERT(utterance >= 0 && utterance < size(), "utterance {} of {}", utterance, size());
  return utterances_[static_cast<size_t>(utterance)];
}

}  // namespace sotto::data
