// The sources of an import, one function and one file each. To add one: a value in import.h, its
// function here, a row in import.cpp, and its detection in import_recognise.cpp.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/data/import/import.h"

namespace sotto::data {

struct ImportItem {
  // Path relative to the working directory; may point into an archive.
  std::string file;
  std::optional<double> offset_s = {};
  // 0: unknown, to be read from the header.
  double duration_s = 0.0;
  std::string text;
  std::string speaker = {};
  std::string lang = {};
  // Line in the list that names it; 0: not in a list.
  int64_t line = 0;
};

struct ImportList {
  // The list that `line` refers to: "validated.tsv".
  std::string name;
  std::vector<ImportItem> items;
  std::vector<ImportProblem> problems = {};

  void refuse(int64_t line, std::string found) {
    problems.push_back({fmt::format("{} line {}", name, line), std::move(found)});
  }
};

struct ImportRequest {
  const std::filesystem::path& source;
  const ImportOptions& options;
};

ImportList list_folder(const ImportRequest& request);
ImportList list_table(const ImportRequest& request);
ImportList list_common_voice(const ImportRequest& request);
ImportList list_ljspeech(const ImportRequest& request);
ImportList list_librispeech(const ImportRequest& request);
ImportList list_kaldi(const ImportRequest& request);
ImportList list_nemo_tarred(const ImportRequest& request);

// Returns the file of that stem with any audio extension; empty if there is none.
std::filesystem::path find_audio(const std::filesystem::path& stem);

// Returns the regular files below a folder, sorted by name. Throws DataError where it cannot be
// read.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder);

// Returns the table of a Common Voice folder; the path itself if it is a file. Throws DataError
// where there is none.
std::filesystem::path common_voice_table(const std::filesystem::path& source);

}  // namespace sotto::data
