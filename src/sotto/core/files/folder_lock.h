// Exclusive lock of a folder: one process at a time works in it.
//
//   const FolderLock lock("runs/digits");
//
// The lock is held on the file `.lock` in the folder. The system releases it when the process ends,
// however it ends.
#pragma once

#include <filesystem>
#include <vector>

namespace sotto {

class FolderLock {
 public:
  // Creates the folder if it is missing, and takes its lock. Throws DataError, which names the
  // process that holds the lock, where that is not possible; the folder is then unchanged. On file
  // systems without locks nothing is locked.
  explicit FolderLock(const std::filesystem::path& folder);

  // Releases the lock. Folders that the constructor created are removed if they are empty.
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  const std::filesystem::path& folder() const { return folder_; }

 private:
  void create_folders();
  void take();
  bool is_current() const;

  std::filesystem::path folder_;
  std::filesystem::path file_;
  std::vector<std::filesystem::path> created_;
  int descriptor_ = -1;
};

// Takes the exclusive lock of an open file. Returns false where another process keeps it: whoever
// only asks whether it is locked (is_locked, the Python package) holds it for an instant. On file
// systems without locks nothing is locked.
bool lock_soon(int descriptor);

// Whether another process holds the lock of a folder. False where that cannot be found out.
bool is_locked(const std::filesystem::path& folder);

}  // namespace sotto
