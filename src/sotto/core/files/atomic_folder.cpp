#include "sotto/core/files/atomic_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/files/output_file.h"

namespace sotto {

namespace {

namespace fs = std::filesystem;

// Suffix of entries that a process is writing or about to remove: ".NAME.partial-PID".
constexpr std::string_view kPartial = ".partial-";
constexpr std::string_view kReplaced = ".replaced-";

fs::path hidden_sibling(const fs::path& path, std::string_view mark) {
  return path.parent_path() / fmt::format(".{}{}{}", path.filename().string(), mark, getpid());
}

// Returns an absolute path, because the process may change its working directory, without a
// trailing slash.
fs::path normalised(const fs::path& path) {
  fs::path result = fs::absolute(path).lexically_normal();
  if (!result.has_filename()) result = result.parent_path();
  SOTTO_ASSERT(result.has_filename(), "'{}' names no folder", path.string());
  return result;
}

class Descriptor {
 public:
  explicit Descriptor(const fs::path& path)
      : number_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  bool is_open() const { return number_ >= 0; }
  int number() const { return number_; }

 private:
  int number_;
};

// Syncs a file or folder to the disk.
void sync_path(const fs::path& path) {
  const Descriptor descriptor(path);
  if (!descriptor.is_open() || fsync(descriptor.number()) != 0) throw_file_error("syncing", path);
}

// Syncs a folder and everything below it.
void sync_tree(const fs::path& folder) {
  std::error_code failed;
  fs::recursive_directory_iterator at(folder, failed);
  for (; !failed && at != fs::recursive_directory_iterator(); at.increment(failed)) {
    // A link is part of its folder; sockets and the like have no content.
    const fs::file_status status = at->symlink_status(failed);
    if (fs::is_regular_file(status) || fs::is_directory(status)) sync_path(at->path());
  }
  if (failed) {
    errno = failed.value();
    throw_file_error("syncing", folder);
  }
  sync_path(folder);
}

void make_folders(const fs::path& path) {
  std::error_code ignored;  // mkdir reports a better error
  if (fs::is_directory(path, ignored) || path == path.root_path()) return;
  make_folders(path.parent_path());
  if (mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) throw_file_error("creating", path);
  sync_path(path.parent_path());
}

// Returns whether another descriptor holds the lock of a folder or file; false on file systems
// without locks.
bool is_locked(const fs::path& path) {
  const Descriptor descriptor(path);
  return descriptor.is_open() && flock(descriptor.number(), LOCK_EX | LOCK_NB) != 0 &&
         errno == EWOULDBLOCK;
}

// A hidden folder or file of ours: the process that owns it and its final name.
struct Leftover {
  std::string final_name;
  bool is_replaced = false;
  pid_t process = 0;
};

std::optional<Leftover> parse_leftover(const std::string& name) {
  if (!name.starts_with('.')) return std::nullopt;
  for (const std::string_view mark : {kPartial, kReplaced}) {
    const size_t at = name.rfind(mark);
    if (at == std::string::npos || at < 2) continue;
    Leftover leftover{.final_name = name.substr(1, at - 1), .is_replaced = mark == kReplaced};
    const char* end = name.data() + name.size();
    const auto [last, code] =
        std::from_chars(name.data() + at + mark.size(), end, leftover.process);
    if (code == std::errc{} && last == end && leftover.process > 0) return leftover;
  }
  return std::nullopt;
}

// A leftover with our own process id may be from an earlier process, as in a restarted container:
// only the lock identifies ours. The process id alone would not suffice, nor would the lock, which
// not every file system has.
bool is_abandoned(const Leftover& leftover, const fs::path& path) {
  const bool is_gone =
      leftover.process == getpid() || (kill(leftover.process, 0) != 0 && errno == ESRCH);
  return is_gone && !is_locked(path);
}

void rename_or_throw(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw_file_error("renaming to", to);
}

// Renames a folder to a free name and syncs. If this fails, or if the content read back differs
// from what was written, the name stays free.
void rename_and_check(const fs::path& from, const fs::path& to, const FolderCheck& check) {
  rename_or_throw(from, to);
  try {
    sync_path(to.parent_path());
    if (check) check(to);
  } catch (...) {
    // Renamed first if possible: otherwise a partly removed folder would have the final name.
    std::error_code failed;
    fs::rename(to, from, failed);
    if (failed) fs::remove_all(to, failed);
    throw;
  }
}

// Exchanges the names of two folders and syncs. Returns false if the file system does not support
// this; throws without having changed anything.
bool exchange(const fs::path& a, const fs::path& b) {
  const auto swap = [&] {
    return renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
  };
  if (!swap()) {
    if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP) return false;
    throw_file_error("renaming to", b);
  }
  try {
    sync_path(b.parent_path());
  } catch (...) {
    swap();
    throw;
  }
  return true;
}

}  // namespace

void detail::replace_in_two_renames(const fs::path& partial, const fs::path& final_path,
                                    const FolderCheck& check) {
  const fs::path replaced = hidden_sibling(final_path, kReplaced);
  rename_or_throw(final_path, replaced);
  try {
    rename_and_check(partial, final_path, check);
  } catch (...) {
    std::error_code failed;  // a remaining folder is a leftover, which gets its name back
    fs::rename(replaced, final_path, failed);
    throw;
  }
  std::error_code ignored;  // a remaining folder is a leftover
  fs::remove_all(replaced, ignored);
}

AtomicFolder::AtomicFolder(const fs::path& final_path)
    : AtomicFolder(final_path, file_system_at(normalised(final_path).parent_path())) {}

AtomicFolder::AtomicFolder(const fs::path& final_path, FileSystem file_system)
    : final_(normalised(final_path)),
      partial_(hidden_sibling(final_, kPartial)),
      file_system_(std::move(file_system)) {
  std::error_code ignored;  // mkdir reports a better error
  if (fs::exists(final_, ignored) && !fs::is_directory(final_, ignored)) {
    throw DataError({.attempted = fmt::format("creating the folder {}", final_.string()),
                     .found = "a file with that name exists",
                     .expected = "a folder or nothing",
                     .hint = "Move it, or name another folder with --out."});
  }
  make_folders(final_.parent_path());
  if (is_locked(partial_)) {
    throw DataError({.attempted = fmt::format("creating the folder {}", final_.string()),
                     .found = "another process is writing it",
                     .expected = "no other process to write it",
                     .hint = "Wait until that run ends, or name another folder with --out."});
  }
  fs::remove_all(partial_, ignored);  // left by an earlier process with our process id
  if (mkdir(partial_.c_str(), 0777) != 0) throw_file_error("creating", partial_);
  lock();
}

void AtomicFolder::lock() {
  descriptor_ = ::open(partial_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // Without file locks, the process id alone must identify the owner.
  if (descriptor_ >= 0) flock(descriptor_, LOCK_EX | LOCK_NB);
}

AtomicFolder::~AtomicFolder() {
  // After a commit that replaced a folder, the old one has the hidden name.
  std::error_code ignored;
  fs::remove_all(partial_, ignored);
  if (descriptor_ >= 0) ::close(descriptor_);
}

void AtomicFolder::commit(const FolderCheck& check) {
  SOTTO_ASSERT(!is_committed_, "{} was committed before", final_.string());
  sync_tree(partial_);
  publish(check);
  is_committed_ = true;
  std::error_code ignored;  // an old folder that remains is a leftover
  fs::remove_all(partial_, ignored);
}

void AtomicFolder::publish(const FolderCheck& check) {
  std::error_code ignored;  // rename reports a better error
  if (!fs::exists(fs::symlink_status(final_, ignored))) {
    rename_and_check(partial_, final_, file_system_.renames_at_once ? FolderCheck() : check);
    return;
  }
  if (!file_system_.renames_at_once) {
    detail::replace_in_two_renames(partial_, final_, check);
    return;
  }
  if (exchange(partial_, final_)) return;
  detail::replace_in_two_renames(partial_, final_, check);
}

namespace {

// Returns whether the replacement of a folder exists and is complete.
bool has_replaced(const fs::path& path, const FolderCheck& check) {
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(path, ignored))) return false;
  try {
    if (check) check(path);
  } catch (const DataError&) {
    return false;
  }
  return true;
}

}  // namespace

void check_is_new(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  const bool is_folder = fs::is_directory(path, ignored);
  const auto first = is_folder ? fs::directory_iterator(path, ignored) : fs::directory_iterator();
  if (is_folder && first == fs::directory_iterator()) return;
  throw ConfigError({.attempted = fmt::format("writing {}", path.string()),
                     .found = is_folder ? fmt::format("a folder that is not empty: it contains {}",
                                                      first->path().filename().string())
                                        : "a file with that name",
                     .expected = "a new or empty folder",
                     .hint = "Name another with --out, or remove it first."});
}

void check_is_another(const fs::path& out, const fs::path& source) {
  std::error_code ignored;
  if (!fs::equivalent(out, source, ignored)) return;
  throw ConfigError({.attempted = fmt::format("writing {}", out.string()),
                     .found = "the input file itself",
                     .expected = "another file, so that the input is not lost",
                     .hint = "Name another output file."});
}

int64_t remove_leftovers(const fs::path& parent, const FolderCheck& check) {
  std::error_code failed;
  std::vector<fs::path> paths;
  for (fs::directory_iterator at(parent, failed), end; !failed && at != end; at.increment(failed)) {
    paths.push_back(at->path());
  }
  int64_t num_removed = 0;
  for (const fs::path& path : paths) {
    const std::optional<Leftover> leftover = parse_leftover(path.filename().string());
    if (!leftover || !is_abandoned(*leftover, path)) continue;
    const fs::path final_path = parent / leftover->final_name;
    if (leftover->is_replaced && !has_replaced(final_path, check)) {
      fs::remove_all(final_path, failed);
      fs::rename(path, final_path, failed);
    } else {
      fs::remove_all(path, failed);
    }
    if (!failed) ++num_removed;
  }
  return num_removed;
}

namespace {

// Resolves links: the target of a link is replaced, not the link.
fs::path without_links(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_symlink(path, ignored)) return path;
  const fs::path target = fs::weakly_canonical(path, ignored);
  return target.empty() ? path : target;
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& final_path)
    : final_(without_links(normalised(final_path))), partial_(hidden_sibling(final_, kPartial)) {
  std::error_code ignored;
  if (fs::exists(final_, ignored) && fs::is_other(final_, ignored)) {
    throw DataError({.attempted = fmt::format("creating the file {}", final_.string()),
                     .found = "a device, a pipe or a socket with that name",
                     .expected = "a file or nothing"});
  }
  if (fs::is_directory(final_, ignored)) {
    throw DataError({.attempted = fmt::format("creating the file {}", final_.string()),
                     .found = "a folder with that name exists",
                     .expected = "a file or nothing",
                     .hint = "Name a file inside it, or another file."});
  }
  file_ = std::make_unique<OutputFile>(OutputFile::create(partial_));
  descriptor_ = ::open(partial_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ >= 0) flock(descriptor_, LOCK_EX | LOCK_NB);
}

AtomicFile::~AtomicFile() {
  if (file_ != nullptr) ::unlink(partial_.c_str());
  if (descriptor_ >= 0) ::close(descriptor_);
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  SOTTO_ASSERT(file_ != nullptr, "{} was committed before", final_.string());
  file_->write(bytes);
}

void AtomicFile::commit() {
  SOTTO_ASSERT(file_ != nullptr, "{} was committed before", final_.string());
  file_->sync();
  file_->close();
  rename_or_throw(partial_, final_);
  file_.reset();
  sync_path(final_.parent_path());
}

void remove_folder(const fs::path& folder) {
  const fs::path hidden = hidden_sibling(normalised(folder), kPartial);
  std::error_code failed;
  fs::remove_all(hidden, failed);  // left by an earlier process with our process id
  fs::rename(folder, hidden, failed);
  if (!failed) fs::remove_all(hidden, failed);  // what remains is a leftover
}

void check_writable(const fs::path& folder) {
  // Hidden and named after our process, so that it counts as a leftover if it remains.
  const fs::path probe = hidden_sibling(folder / "probe", kPartial);
  const int descriptor = ::open(probe.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    if (errno == ENOSPC || errno == EDQUOT) return;
    throw_file_error("creating a file in", folder);
  }
  ::close(descriptor);
  ::unlink(probe.c_str());
}

void write_file_synced(const fs::path& path, std::span<const std::byte> bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

void write_text_synced(const fs::path& path, std::string_view text) {
  write_file_synced(path, std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace sotto
