#include "sotto/data/manifest/manifest_writer.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>

#include "sotto/core/error.h"
#include "sotto/core/files/text_file.h"

namespace sotto::data {

namespace {

constexpr size_t kBytesAtOnce = size_t{1} << 20;

// Formats to the microsecond, which distinguishes samples at any rate, without trailing zeros.
// Values that would round to zero are written with all their digits.
std::string seconds_text(double seconds) {
  if (seconds < 1e-6) return fmt::format("{}", seconds);
  std::string text = fmt::format("{:.6f}", seconds);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text += '0';
  return text;
}

std::string quoted(const std::string& text, const char* key) {
  if (!is_utf8(text)) {
    throw DataError({.attempted = "writing a line of a manifest",
                     .found = fmt::format("{} is not UTF-8", key),
                     .expected = "text in UTF-8",
                     .hint = "Convert it, for example with iconv -f ISO-8859-1 -t UTF-8."});
  }
  return nlohmann::json(text).dump();
}

std::filesystem::path with_folders(std::filesystem::path path) {
  check_replaces_manifest(path);
  std::error_code ignored;  // creating the file reports a better error
  std::filesystem::create_directories(std::filesystem::absolute(path).parent_path(), ignored);
  return path;
}

std::string segments_text(const std::vector<Segment>& segments) {
  std::string text;
  for (const Segment& segment : segments) {
    text += text.empty() ? R"(, "segments": [)" : ", ";
    text += fmt::format(R"({{"offset": {}, "duration": {}, "text": {}}})",
                        seconds_text(segment.offset_s), seconds_text(segment.duration_s),
                        quoted(segment.text, "segments"));
  }
  return text + "]";
}

}  // namespace

void check_replaces_manifest(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  char first = '{';
  if (!(file >> first) || first == '{') return;
  throw DataError({.attempted = fmt::format("writing the manifest {}", path.string()),
                   .found = "a file with that name that is not a manifest",
                   .expected = "a new name, or a manifest that may be replaced",
                   .hint = "Name another output file."});
}

std::string manifest_line(const Utterance& utterance) {
  const bool is_audio = utterance.feature_dim == 0;
  const char* file_key = is_audio ? "audio_filepath" : "feature_filepath";
  std::string line = fmt::format(R"({{"{}": {})", file_key, quoted(utterance.file, file_key));
  if (utterance.offset_s)
    line += fmt::format(R"(, "offset": {})", seconds_text(*utterance.offset_s));
  if (!is_audio) {
    line += fmt::format(R"(, "frame_offset": {}, "num_frames": {}, "feature_dim": {})",
                        utterance.frame_offset, utterance.num_frames, utterance.feature_dim);
  }
  line += fmt::format(R"(, "duration": {}, "text": {})", seconds_text(utterance.duration_s),
                      quoted(utterance.text, "text"));
  if (!utterance.speaker.empty())
    line += fmt::format(R"(, "speaker": {})", quoted(utterance.speaker, "speaker"));
  if (!utterance.lang.empty())
    line += fmt::format(R"(, "lang": {})", quoted(utterance.lang, "lang"));
  if (!utterance.segments.empty()) line += segments_text(utterance.segments);
  return line + "}";
}

ManifestWriter::ManifestWriter(const std::filesystem::path& path) : file_(with_folders(path)) {}

void ManifestWriter::add(const Utterance& utterance) {
  add_line(manifest_line(utterance));
}

void ManifestWriter::add_line(std::string_view line) {
  waiting_ += line;
  waiting_ += '\n';
  ++num_lines_;
  if (waiting_.size() >= kBytesAtOnce) flush();
}

void ManifestWriter::flush() {
  file_.write(std::as_bytes(std::span(waiting_.data(), waiting_.size())));
  waiting_.clear();
}

void ManifestWriter::finish() {
  flush();
  file_.commit();
}

}  // namespace sotto::data
