// The lock of a folder: one process at a time works in it.
//
//   const FolderLock lock("runs/digits");
//
// The lock is that of the file `.lock` in the folder. The system gives it back when the process
// ends, however it ends.
#pragma once

#include <filesystem>
#include <vector>

namespace sotto {

class FolderLock {
 public:
  // Creates the folder where it is missing, and takes its lock. Throws DataError, which names the
  // process that holds it, where that is not possible; nothing in the folder has then changed. File
  // systems without locks hold none.
  explicit FolderLock(const std::filesystem::path& folder);

  // Gives the lock back. Folders that the constructor created and that are empty are removed.
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

}  // namespace sotto
