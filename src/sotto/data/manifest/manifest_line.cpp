#include "sotto/data/manifest/manifest_line.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "sotto/core/files/text_file.h"

namespace sotto::data {

namespace {

constexpr std::string_view kSourceHint =
    "An utterance has audio_filepath, or feature_filepath with frame_offset, num_frames and "
    "feature_dim.";

// Longer than any recording; its samples can still be counted in 64 bits.
constexpr double kMostSeconds = 1e9;
// An index stores durations as floats: 1e-300 would become zero.
constexpr double kLeastSeconds = 1e-9;
// An index stores frames in 32 bits.
constexpr int64_t kMostCount = std::numeric_limits<uint32_t>::max();
// No stored features are wider, and the bytes of a recording still fit into an int64.
constexpr int64_t kMostDimension = 1 << 20;

std::string shortened(std::string_view text) {
  constexpr size_t kMost = 60;
  if (text.size() <= kMost) return std::string(text);
  size_t end = kMost;
  // Does not cut inside of a multi-byte character.
  while ((static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(0, end)) + "...";
}

// Faults are thrown as a LineFault, which is caught in this file.
[[noreturn]] void refuse(const std::string& found, std::string_view expected,
                         std::string_view hint = {}) {
  // NOLINTNEXTLINE(bugprone-std-exception-baseclass): it does not leave this file
  throw LineFault{.found = found, .expected = std::string(expected), .hint = std::string(hint)};
}

nlohmann::json parse_object(std::string_view text) {
  constexpr std::string_view kObject = "a JSON object on each line";
  // The parser treats a zero as the end of the text, and ignores what follows.
  if (text.find('\0') != std::string_view::npos) refuse("a zero byte", "text in UTF-8");
  nlohmann::json object = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (object.is_discarded()) {
    if (!is_utf8(text)) refuse("not UTF-8", "text in UTF-8");
    refuse(fmt::format("not JSON: {}", shortened(text)), kObject);
  }
  if (!object.is_object())
    refuse(fmt::format("{}, not an object: {}", object.type_name(), shortened(text)), kObject);
  return object;
}

// A JSON object with the known keys, which must outlive this. It is never copied: arbitrarily deep
// nesting could exhaust the stack.
class Line {
 public:
  explicit Line(const nlohmann::json& object) : object_(object) {}

  bool has(const char* key) const { return object_.contains(key); }

  std::string text(const char* key) const {
    const nlohmann::json& value = require(key);
    if (!value.is_string()) refuse_value(key, value, "a string");
    return value.get<std::string>();
  }
  // Returns an empty text if it is absent; NeMo's tools write null for unknown values.
  std::string optional_text(const char* key) const {
    return has(key) && !object_.at(key).is_null() ? text(key) : std::string();
  }
  std::string file(const char* key) const {
    std::string name = text(key);
    // The system would take the part before a zero byte as the whole name.
    if (name.empty() || name.find('\0') != std::string::npos)
      refuse_value(key, object_.at(key), "the name of a file");
    return name;
  }
  double seconds(const char* key) const {
    const nlohmann::json& value = require(key);
    if (!value.is_number() ||
        !(value.get<double>() >= 0.0 && value.get<double>() <= kMostSeconds)) {
      refuse_value(key, value, fmt::format("seconds, a number from 0 to {}", kMostSeconds));
    }
    return value.get<double>();
  }
  int64_t count(const char* key, int64_t least, int64_t most) const {
    const nlohmann::json& value = require(key);
    if (!value.is_number_integer() || value.get<int64_t>() < least || value.get<int64_t>() > most) {
      refuse_value(key, value, fmt::format("a whole number from {} to {}", least, most));
    }
    return value.get<int64_t>();
  }

  std::vector<Line> objects(const char* key) const {
    const nlohmann::json& value = require(key);
    if (!value.is_array()) refuse_value(key, value, "a list");
    std::vector<Line> found;
    for (const nlohmann::json& item : value) {
      if (!item.is_object())
        refuse(fmt::format("{}: an item is {}", key, item.type_name()), "objects");
      found.emplace_back(item);
    }
    return found;
  }

  [[noreturn]] void refuse_value(const char* key, const nlohmann::json& value,
                                 std::string_view expected) const {
    // Printing deep nesting could exhaust the stack too.
    const bool is_nested = value.is_structured() && !value.empty();
    refuse(fmt::format("{} is {}", key, is_nested ? value.type_name() : shortened(value.dump())),
           expected);
  }

 private:
  const nlohmann::json& require(const char* key) const {
    if (!has(key)) refuse(fmt::format("no key '{}'", key), "one", kSourceHint);
    return object_.at(key);
  }

  const nlohmann::json& object_;
};

void take_source(const Line& line, Utterance& utterance) {
  const bool has_audio = line.has("audio_filepath");
  const bool has_features = line.has("feature_filepath");
  if (has_audio && has_features)
    refuse("both audio_filepath and feature_filepath", "one of them", kSourceHint);
  if (!has_audio && !has_features)
    refuse("neither audio_filepath nor feature_filepath", "one of them", kSourceHint);
  if (has_audio) {
    utterance.file = line.file("audio_filepath");
    if (line.has("offset")) utterance.offset_s = line.seconds("offset");
    return;
  }
  utterance.file = line.file("feature_filepath");
  utterance.frame_offset = line.count("frame_offset", 0, std::numeric_limits<int64_t>::max());
  utterance.num_frames = line.count("num_frames", 1, kMostCount);
  utterance.feature_dim = line.count("feature_dim", 1, kMostDimension);
}

// Maximum distance by which segments may extend beyond the utterance: times are rounded.
constexpr double kToleranceS = 0.01;

void take_segments(const Line& line, Utterance& utterance) {
  double end_s = 0.0;
  for (const Line& object : line.objects("segments")) {
    const Segment segment{.offset_s = object.seconds("offset"),
                          .duration_s = object.seconds("duration"),
                          .text = object.text("text")};
    if (segment.duration_s == 0.0 || segment.offset_s < end_s - kToleranceS ||
        segment.end_s() > utterance.duration_s + kToleranceS) {
      refuse(fmt::format("a segment from {} to {} s", segment.offset_s, segment.end_s()),
             fmt::format("consecutive segments up to {} s", utterance.duration_s));
    }
    end_s = segment.end_s();
    utterance.segments.push_back(segment);
  }
}

Utterance take_utterance(const Line& line) {
  Utterance utterance;
  take_source(line, utterance);
  utterance.duration_s = line.seconds("duration");
  if (utterance.duration_s < kLeastSeconds) {
    refuse(fmt::format("duration is {}", utterance.duration_s),
           fmt::format("seconds, a number of at least {}", kLeastSeconds));
  }
  utterance.text = line.text("text");
  utterance.speaker = line.optional_text("speaker");
  utterance.lang = line.optional_text("lang");
  if (line.has("segments")) take_segments(line, utterance);
  return utterance;
}

}  // namespace

std::variant<Utterance, LineFault> parse_manifest_line(std::string_view line) {
  try {
    const nlohmann::json object = parse_object(line);
    return take_utterance(Line(object));
  } catch (LineFault& fault) {
    return std::move(fault);
  }
}

std::string source_kind(int64_t feature_dim) {
  if (feature_dim == 0) return "audio";
  return fmt::format("features of dimension {}", feature_dim);
}

}  // namespace sotto::data
