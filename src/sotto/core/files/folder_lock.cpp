#include "sotto/core/files/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/files/output_file.h"

namespace sotto {

namespace {

namespace fs = std::filesystem;

constexpr const char* kLockFile = ".lock";

// Content of the lock file: describes the process that holds the lock.
std::string holder_text() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return fmt::format("process {} on {}", getpid(), host.data());
}

std::string read_holder(int descriptor) {
  std::array<char, 300> text{};
  const ssize_t size = pread(descriptor, text.data(), text.size(), 0);
  return size > 0 ? std::string(text.data(), static_cast<size_t>(size)) : "another process";
}

}  // namespace

bool lock_soon(int descriptor) {
  constexpr int kTries = 5;
  for (int i = 0; i < kTries; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return true;
  }
  return false;
}

FolderLock::FolderLock(const fs::path& folder)
    : folder_(folder), file_(fs::absolute(folder) / kLockFile) {
  try {
    create_folders();
    take();
  } catch (...) {
    for (auto path = created_.rbegin(); path != created_.rend(); ++path) ::rmdir(path->c_str());
    throw;
  }
}

FolderLock::~FolderLock() {
  // Removed before the lock is released: a process that has opened it meanwhile sees that it is
  // gone.
  ::unlink(file_.c_str());
  ::close(descriptor_);
  for (auto path = created_.rbegin(); path != created_.rend(); ++path) ::rmdir(path->c_str());
}

void FolderLock::create_folders() {
  std::vector<fs::path> missing;
  std::error_code ignored;  // mkdir reports a better error
  for (fs::path at = file_.parent_path(); !fs::exists(at, ignored) && at != at.root_path();
       at = at.parent_path())
    missing.push_back(at);
  for (auto path = missing.rbegin(); path != missing.rend(); ++path) {
    if (::mkdir(path->c_str(), 0777) == 0) {
      created_.push_back(*path);
    } else if (errno != EEXIST) {
      throw_file_error("creating", *path);
    }
  }
}

void FolderLock::take() {
  do {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0) throw_file_error("opening", file_);
    if (!lock_soon(descriptor_)) {
      const std::string holder = read_holder(descriptor_);
      ::close(std::exchange(descriptor_, -1));
      throw DataError({.attempted = fmt::format("starting a run in {}", folder_.string()),
                       .found = fmt::format("a run is in progress there: {}", holder),
                       .expected = "a folder that no other process is using",
                       .hint = "Wait until that run ends, or name another folder with --out."});
    }
  } while (!is_current());
  const std::string text = holder_text();
  // Used only in the error messages of other processes.
  if (ftruncate(descriptor_, 0) == 0) [[maybe_unused]]
    const ssize_t written = pwrite(descriptor_, text.data(), text.size(), 0);
}

// Returns whether the locked file is still the one in the folder.
bool FolderLock::is_current() const {
  struct stat locked{};
  struct stat named{};
  return fstat(descriptor_, &locked) == 0 && stat(file_.c_str(), &named) == 0 &&
         locked.st_ino == named.st_ino && locked.st_dev == named.st_dev;
}

bool is_locked(const fs::path& folder) {
  const int descriptor = ::open((folder / kLockFile).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return false;
  // A shared lock is not granted beside an exclusive one; it is released at once.
  const bool is_held = flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(descriptor);
  return is_held;
}

}  // namespace sotto
