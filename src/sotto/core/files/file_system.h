// Properties of the file system of a folder that matter for replacing one folder by another: local
// disks rename atomically, mounted remote drives may not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace sotto {

struct FileSystem {
  // Example: "vfat"; empty if the file system is not known to be weak.
  std::string name = {};
  // Whether renaming a folder is atomic: after a crash it has either the old or the new name, and
  // all of its files.
  bool renames_at_once = true;
};

// Looks up a file system by its magic number (statfs, f_type).
FileSystem file_system_of(int64_t magic);

// Returns the file system of a folder, or of its closest existing ancestor.
FileSystem file_system_at(const std::filesystem::path& path);

}  // namespace sotto
