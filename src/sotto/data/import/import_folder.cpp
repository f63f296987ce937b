// A folder of audio, with the transcript of each file next to it: a.flac with a.txt or a.lab.
#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "sotto/core/error.h"
#include "sotto/core/files/text_file.h"
#include "sotto/data/audio/audio_path.h"
#include "sotto/data/import/import_sources.h"
#include "sotto/data/text/text_lines.h"

namespace sotto::data {

namespace fs = std::filesystem;

fs::path find_audio(const fs::path& stem) {
  std::error_code ignored;
  for (const char* extension : {".flac", ".wav", ".mp3", ".ogg", ".opus", ".WAV", ".FLAC"}) {
    fs::path path = stem;
    path += extension;
    if (fs::exists(path, ignored)) return path;
  }
  return {};
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code failed;
  const auto options = fs::directory_options::follow_directory_symlink |
                       fs::directory_options::skip_permission_denied;
  fs::recursive_directory_iterator at(folder, options, failed);
  for (; !failed && at != fs::recursive_directory_iterator(); at.increment(failed)) {
    std::error_code ignored;
    if (at->is_regular_file(ignored)) files.push_back(at->path());
  }
  if (failed) refuse_file(folder, failed.message(), "a folder that can be listed", {});
  std::ranges::sort(files);
  return files;
}

namespace {

// Returns all words of a file, separated by one blank. An empty file is a valid transcript: nothing
// was said. Throws DataError.
std::string read_transcript(const fs::path& path) {
  constexpr const char* kText = "a transcript in UTF-8";
  std::string text;
  TextLines lines(path, kText);
  while (const std::optional<std::string_view> line = lines.next()) {
    for (FirstWord parts = split_first_word(*line); !parts.word.empty();
         parts = split_first_word(parts.rest)) {
      if (!text.empty()) text += ' ';
      text += parts.word;
    }
  }
  if (!is_utf8(text) || text.find('\0') != std::string::npos)
    refuse_file(path, "it is not UTF-8", kText, {});
  return text;
}

fs::path transcript_of(const fs::path& audio) {
  std::error_code ignored;
  for (const char* extension : {".txt", ".lab"}) {
    fs::path path = audio;
    if (fs::exists(path.replace_extension(extension), ignored)) return path;
  }
  return {};
}

}  // namespace

ImportList list_folder(const ImportRequest& request) {
  ImportList list{.name = request.source.string(), .items = {}};
  for (const fs::path& file : files_below(request.source)) {
    if (needs_ffmpeg(file)) {
      list.problems.push_back(
          {file.string(), fmt::format("{} files are not supported; convert it: {}",
                                      file.extension().string(), ffmpeg_line(file))});
      continue;
    }
    if (!has_audio_name(file)) continue;
    const fs::path transcript = transcript_of(file);
    if (transcript.empty()) {
      list.problems.push_back({file.string(), "no .txt or .lab with the same name"});
      continue;
    }
    try {
      list.items.push_back({.file = file.string(), .text = read_transcript(transcript)});
    } catch (const DataError& error) {
      list.problems.push_back({file.string(), error.what()});
    }
  }
  if (list.items.empty() && list.problems.empty()) {
    refuse_file(request.source, "it contains no audio",
                "files such as a.flac, each with its a.txt or a.lab", {});
  }
  return list;
}

}  // namespace sotto::data
