// Folders and files that are there whole or not at all, whatever happens: a crash, a killed
// process, a full disk, a power failure.
//
//   AtomicFolder folder("runs/digits/checkpoints/step-100");
//   write_safetensors(folder.path() / "model.safetensors", entries);
//   folder.commit();
//
// Until commit() everything stands in a hidden folder beside the final one,
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

// Reads a folder and throws DataError where it is not as it was written.
using FolderCheck = std::function<void(const std::filesystem::path&)>;

// Throws ConfigError where there is something at the path already, an empty folder apart: a folder
// that is written whole would take its place.
void check_is_new(const std::filesystem::path& path);
// Throws ConfigError where a file that is to be written is the one that is read.
void check_is_another(const std::filesystem::path& out, const std::filesystem::path& source);

class AtomicFolder {
 public:
  // Creates the hidden folder, and the folders above it where they are missing. Throws DataError
  // where it cannot be created, where there is a file of the final name, or where this process is
  // writing the same folder already.
  explicit AtomicFolder(const std::filesystem::path& final_path);
  // As if it lay on such a file system. For the tests.
  AtomicFolder(const std::filesystem::path& final_path, FileSystem file_system);

  // Removes the hidden folder and what is in it, if it was not committed.
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  // Where to write.
  const std::filesystem::path& path() const { return partial_; }

  // Gives the folder its final name, in place of one that has it: at every moment the old one or
  // the new one is there. Returns when it would survive a power failure. May be called once. Throws
  // DataError; what was there before is then there still.
  //
  // On a file system that does not rename at once, or cannot exchange two names, the old one stays
  // beside it, as a second copy, until `check` has read the new one; after a crash
  // remove_leftovers() puts it back.
  void commit(const FolderCheck& check = {});

 private:
  void lock();
  void publish(const FolderCheck& check);

  std::filesystem::path final_;
  std::filesystem::path partial_;
  FileSystem file_system_;
  // Of the hidden folder, locked as long as we write it.
  int descriptor_ = -1;
  bool is_committed_ = false;
};

// One file, written piece by piece aside and renamed when it is finished.
class AtomicFile {
 public:
  // Creates the hidden file; its folder must be there. Throws DataError where it cannot be created
  // or the final name is a folder's.
  explicit AtomicFile(const std::filesystem::path& final_path);

  // Removes the hidden file, if it was not committed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Appends. Throws DataError where there is no room.
  void write(std::span<const std::byte> bytes);

  // Gives the file its final name, in place of one that has it. Returns when it would survive a
  // power failure. May be called once. Throws DataError; what was there before is then there still.
  void commit();

 private:
  std::filesystem::path final_;
  std::filesystem::path partial_;
  std::unique_ptr<OutputFile> file_;
  // Of the hidden file, locked as long as we write it.
  int descriptor_ = -1;
};

// Clears away what processes that are no more have left in `parent`: hidden folders and files that
// were not committed, folders that were being replaced. Where the folder that replaced one does not
// pass `check`, or is not there, the old one gets its name back. What cannot be removed stays.
// Returns how many are gone.
int64_t remove_leftovers(const std::filesystem::path& parent, const FolderCheck& check = {});

// Throws DataError where this process may not create files in a folder that is there, or where it
// is no folder. A full disk is no such fault: it may have room later.
void check_writable(const std::filesystem::path& folder);

// Writes one small file: aside, synced, renamed. Throws DataError; what was there before is then
// there still.
void write_file_synced(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_text_synced(const std::filesystem::path& path, std::string_view text);

namespace detail {
// How commit() replaces a folder where names cannot be exchanged. Here for the tests.
void replace_in_two_renames(const std::filesystem::path& partial,
                            const std::filesystem::path& final_path, const FolderCheck& check = {});
}  // namespace detail

}  // namespace sotto
