// LJSpeech and corpora with its layout: metadata.csv with "id|text|normalised text", without a
// header row and without quotes, and wavs/id.wav.
#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "sotto/core/files/text_file.h"
#include "sotto/data/import/import_sources.h"
#include "sotto/data/text/text_lines.h"

namespace sotto::data {

ImportList list_ljspeech(const ImportRequest& request) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path table =
      fs::is_directory(request.source, ignored) ? request.source / "metadata.csv" : request.source;
  ImportList list{.name = table.filename().string(), .items = {}};
  TextLines lines(table, "LJSpeech's metadata.csv");
  while (const std::optional<std::string_view> line = lines.next()) {
    if (trimmed(*line).empty()) continue;
    const size_t first = line->find('|');
    if (first == std::string_view::npos || trimmed(line->substr(0, first)).empty() ||
        !is_utf8(*line)) {
      list.refuse(lines.number(), is_utf8(*line) ? "no id|text" : "not UTF-8");
      continue;
    }
    const std::string_view rest = line->substr(first + 1);
    const size_t second = std::min(rest.find('|'), rest.size());
    // Numbers and abbreviations are spelled out in the last column; some rows leave it empty.
    std::string_view text = second < rest.size() ? trimmed(rest.substr(second + 1)) : "";
    if (text.empty()) text = trimmed(rest.substr(0, second));
    const fs::path stem = table.parent_path() / "wavs" / trimmed(line->substr(0, first));
    const fs::path found = find_audio(stem);
    list.items.push_back({.file = found.empty() ? stem.string() + ".wav" : found.string(),
                          .text = std::string(text),
                          .line = lines.number()});
  }
  return list;
}

}  // namespace sotto::data
