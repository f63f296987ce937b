// LibriSpeech: SPEAKER/CHAPTER/SPEAKER-CHAPTER.trans.txt with a line "id TEXT" for each id.flac
// next to it.
#include <fmt/format.h>

#include "sotto/core/files/text_file.h"
#include "sotto/data/import/import_sources.h"
#include "sotto/data/text/text_lines.h"

namespace sotto::data {

namespace {

namespace fs = std::filesystem;

void take_chapter(const fs::path& transcripts, ImportList& list) {
  const std::string location = transcripts.filename().string();
  const std::string speaker =
      fs::absolute(transcripts).parent_path().parent_path().filename().string();
  TextLines lines(transcripts, "LibriSpeech's transcripts");
  while (const std::optional<std::string_view> line = lines.next()) {
    const FirstWord parts = split_first_word(*line);
    if (parts.word.empty()) continue;
    if (!is_utf8(*line)) {
      list.problems.push_back({fmt::format("{} line {}", location, lines.number()), "not UTF-8"});
      continue;
    }
    const fs::path stem = transcripts.parent_path() / parts.word;
    const fs::path found = find_audio(stem);
    list.items.push_back({.file = found.empty() ? stem.string() + ".flac" : found.string(),
                          .text = std::string(parts.rest),
                          .speaker = speaker});
  }
}

}  // namespace

ImportList list_librispeech(const ImportRequest& request) {
  ImportList list{.name = request.source.string(), .items = {}};
  for (const fs::path& file : files_below(request.source)) {
    if (file.string().ends_with(".trans.txt")) take_chapter(file, list);
  }
  if (list.items.empty() && list.problems.empty())
    refuse_file(request.source, "it contains no *.trans.txt", "a LibriSpeech folder", {});
  return list;
}

}  // namespace sotto::data
