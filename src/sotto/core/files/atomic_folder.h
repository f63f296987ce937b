// Atomic writes of folders and files: after a crash, a killed process, a full disk or a power
// failure they exist either completely or not at all.
//
//   AtomicFolder folder("runs/digits/checkpoints/step-100");
//   write_safetensors(folder.path() / "model.safetensors", entries);
//   folder.commit();
//
// Until commit() everything is written to a hidden folder next to the final one,
// `.step-100.partial-PID`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "sotto/core/files/file_system.h"

namespace sotto {

class OutputFile;

// Reads a folder and throws DataError where its content differs from what was written.
using FolderCheck = std::function<void(const std::filesystem::path&)>;

// Throws ConfigError where the path exists already, unless it is an empty folder: writing a folder
// atomically would replace it.
void check_is_new(const std::filesystem::path& path);
// Throws ConfigError where the file to write is the file that is read.
void check_is_another(const std::filesystem::path& out, const std::filesystem::path& source);

class AtomicFolder {
 public:
  // Creates the hidden folder, and missing parent folders. Throws DataError where it cannot be
  // created, where a file has the final name, or where this process is already writing the same
  // folder.
  explicit AtomicFolder(const std::filesystem::path& final_path);
  // Behaves as if the folder were on the given file system. For the tests.
  AtomicFolder(const std::filesystem::path& final_path, FileSystem file_system);

  // Removes the hidden folder with its content if it was not committed.
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  // The folder to write into.
  const std::filesystem::path& path() const { return partial_; }

  // Renames the folder to its final name and replaces an existing one: at every moment either the
  // old or the new one exists. Returns when the new one would survive a power failure. May be
  // called once. Throws DataError, which leaves the old folder in place.
  //
  // On a file system where renaming is not atomic, or that cannot exchange two names, the old
  // folder is kept next to the new one, as a second copy, until `check` has read the new one; after
  // a crash remove_leftovers() restores it.
  void commit(const FolderCheck& check = {});

 private:
  void lock();
  void publish(const FolderCheck& check);

  std::filesystem::path final_;
  std::filesystem::path partial_;
  FileSystem file_system_;
  // Descriptor of the hidden folder, locked while it is being written.
  int descriptor_ = -1;
  bool is_committed_ = false;
};

// A single file that is written piece by piece under a hidden name and renamed when it is complete.
class AtomicFile {
 public:
  // Creates the hidden file; its folder must exist. Throws DataError where it cannot be created or
  // where a folder has the final name.
  explicit AtomicFile(const std::filesystem::path& final_path);

  // Removes the hidden file if it was not committed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Appends bytes. Throws DataError where the disk is full.
  void write(std::span<const std::byte> bytes);

  // Renames the file to its final name and replaces an existing one. Returns when it would survive
  // a power failure. May be called once. Throws DataError, which leaves the old file in place.
  void commit();

 private:
  std::filesystem::path final_;
  std::filesystem::path partial_;
  std::unique_ptr<OutputFile> file_;
  // Descriptor of the hidden file, locked while it is being written.
  int descriptor_ = -1;
};

// Cleans up what ended processes have left in `parent`: hidden folders and files that were not
// committed, and folders that were being replaced. If the replacement of a folder is missing or
// fails `check`, the old folder gets its name back. Entries that cannot be removed stay. Returns
// the number of removed entries.
int64_t remove_leftovers(const std::filesystem::path& parent, const FolderCheck& check = {});

// Removes a folder. A process killed meanwhile leaves either the complete folder or one with a
// hidden name, which remove_leftovers() removes. What cannot be removed stays.
void remove_folder(const std::filesystem::path& folder);

// Throws DataError where this process may not create files in an existing folder, or where the path
// is not a folder. A full disk is not an error: space may be freed later.
void check_writable(const std::filesystem::path& folder);

// Writes one small file atomically: to a temporary name, synced, renamed. Throws DataError, which
// leaves an existing file in place.
void write_file_synced(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_text_synced(const std::filesystem::path& path, std::string_view text);

namespace detail {
// Replaces a folder where names cannot be exchanged; used by commit(). Public for the tests.
void replace_in_two_renames(const std::filesystem::path& partial,
                            const std::filesystem::path& final_path, const FolderCheck& check = {});
}  // namespace detail

}  // namespace sotto
