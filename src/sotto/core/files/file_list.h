// The files of a folder with the size and the checksum of each, written beside them as files.json:
// a bit that a disk flipped, a copy that was cut short and a file that is missing are noticed
// before anything is read from them.
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
// The file that makes a folder a checkpoint: counters, limits, position in the data.
inline constexpr const char* kStateFile = "state.json";

class FileList {
 public:
  // The list of a folder. Throws DataError where it is missing, broken or of a newer format.
  static FileList read(const std::filesystem::path& folder);

  // A file that was summed while it was written.
  void add(const std::string& name, const FileSum& sum);
  // All other files of the folder, which are small: they are read again.
  void add_rest(const std::filesystem::path& folder);

  // Throws DataError where it cannot be written.
  void write(const std::filesystem::path& folder) const;

  const std::map<std::string, FileSum, std::less<>>& files() const { return files_; }

 private:
  std::map<std::string, FileSum, std::less<>> files_;
};

struct FileCheck {
  // A file that is not looked at, because nobody will read it; empty: none.
  std::string_view left_out = {};
  // Reads what is on the disk, not what the system remembers of it.
  bool is_from_disk = false;
};

// Reads the files of a folder and compares them with its list. Throws DataError, which names folder
// and file, where one is missing, has another size or other bytes.
void check_files(const std::filesystem::path& folder, const FileCheck& check = {});

}  // namespace sotto
