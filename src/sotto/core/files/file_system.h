// What kind of file system a folder lies on, as far as it matters for replacing one folder by
// another: disks of this machine rename at once, drives that are mounted from elsewhere may not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace sotto {

struct FileSystem {
  // "vfat"; empty where it is none of those that we know to be weak.
  std::string name = {};
  // Whether a folder is renamed at once: after a crash it has the old name or the new one, and all
  // of its files.
  bool renames_at_once = true;
};

// By the number that the system gives to its kind (statfs, f_type).
FileSystem file_system_of(int64_t magic);

// Of the folder, or of the first above it that is there.
FileSystem file_system_at(const std::filesystem::path& path);

}  // namespace sotto
