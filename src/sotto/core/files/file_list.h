// Size and checksum of every file of a folder, stored next to them as files.json. Bit flips,
// truncated copies and missing files are detected before anything is read from them.
//
//   FileList list;
//   list.add("model.safetensors", write_safetensors(...));
//   list.add_rest(folder.path());
//   list.write(folder.path());
//   ...
//   check_files("runs/digits/best");
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "sotto/core/files/checksum.h"

namespace sotto {

inline constexpr int64_t kFileListFormatVersion = 1;
inline constexpr const char* kFileListName = "files.json";
// The file that marks a folder as a checkpoint: counters, limits, position in the data.
inline constexpr const char* kStateFile = "state.json";

class InputFile;

// Returns size and checksum of a file. Throws DataError where it cannot be read.
FileSum sum_of(const InputFile& file);

class FileList {
 public:
  // Reads the list of a folder. Throws DataError where it is missing, broken or of a newer format.
  static FileList read(const std::filesystem::path& folder);

  // Adds a file whose checksum was computed while it was written.
  void add(const std::string& name, const FileSum& sum);
  // Adds all other files of the folder, which are small and are read again for this.
  void add_rest(const std::filesystem::path& folder);

  // Writes the list. Throws DataError where it cannot be written.
  void write(const std::filesystem::path& folder) const;

  const std::map<std::string, FileSum, std::less<>>& files() const { return files_; }

 private:
  std::map<std::string, FileSum, std::less<>> files_;
};

struct FileCheck {
  // File to skip because it will not be read; empty: none.
  std::string_view left_out = {};
  // Reads from the disk instead of the page cache.
  bool is_from_disk = false;
};

// Reads the files of a folder and compares them with its list. Throws DataError, which names folder
// and file, where a file is missing or its size or content differs.
void check_files(const std::filesystem::path& folder, const FileCheck& check = {});

}  // namespace sotto
