// The sources of an import, one function and one file each. To add one: a value in import.h, its
// function here, a row in import.cpp, and how it is recognised in import_recognise.cpp.
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
  // To be opened from where the program runs; may lead into an archive.
  std::string file;
  std::optional<double> offset_s = {};
  // 0: not known, to be read from the header.
  double duration_s = 0.0;
  std::string text;
  std::string speaker = {};
  std::string lang = {};
  // Of the list that names it; 0: it stands in none.
  int64_t line = 0;
};

struct ImportList {
  // What `line` counts in: "validated.tsv".
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

// The file of that stem and any audio extension; empty where there is none.
std::filesystem::path find_audio(const std::filesystem::path& stem);

// Regular files below a folder, sorted by name. Throws DataError where it cannot be read.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder);

// The table of a Common Voice folder; the path itself where it is a file. Throws DataError where
// there is none.
std::filesystem::path common_voice_table(const std::filesystem::path& source);

}  // namespace sotto::data
