#include "sotto/core/files/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "sotto/core/error.h"

namespace sotto {

namespace {

// Bytes that are hashed and then written at a time: they are still in the CPU cache when the system
// copies them.
constexpr size_t kWriteBytes = size_t{1} << 20;

Problem describe(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      return {.attempted = {},
              .found = {},
              .expected = "free space on that disk",
              .hint = "Free some space, or name a folder on another disk with --out."};
    case EFBIG:
      return {.attempted = {},
              .found = {},
              .expected = "a file of that size to be allowed",
              .hint = "Raise the limit (ulimit -f), or use a file system for large files."};
    case EROFS:
    case EACCES:
    case EPERM:
      return {.attempted = {},
              .found = {},
              .expected = "a place that this user may write to",
              .hint = "Change its permissions, or name another folder with --out."};
    case ENOTDIR:
      return {.attempted = {},
              .found = {},
              .expected = "a folder",
              .hint = "Move the file with that name, or name another folder with --out."};
    default: return {};
  }
}

}  // namespace

void throw_file_error(const char* doing, const std::filesystem::path& path) {
  const int code = errno;
  Problem problem = describe(code);
  problem.attempted = fmt::format("{} {}", doing, path.string());
  problem.found = std::generic_category().message(code);
  throw DataError(problem);
}

OutputFile::OutputFile(std::filesystem::path path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

OutputFile OutputFile::create(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) throw_file_error("creating", path);
  return {path, descriptor};
}

OutputFile OutputFile::append(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) throw_file_error("creating", path);
  return {path, descriptor};
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      checksum_(std::move(other.checksum_)) {}

void OutputFile::write(std::span<const std::byte> bytes) {
  SOTTO_ASSERT(descriptor_ >= 0, "the file is closed");
  while (!bytes.empty()) {
    std::span<const std::byte> piece = bytes.first(std::min(bytes.size(), kWriteBytes));
    bytes = bytes.subspan(piece.size());
    checksum_.add(piece);
    while (!piece.empty()) {
      const ssize_t written = ::write(descriptor_, piece.data(), piece.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) throw_file_error("writing", path_);
      piece = piece.subspan(static_cast<size_t>(written));
    }
  }
}

void OutputFile::sync() {
  SOTTO_ASSERT(descriptor_ >= 0, "the file is closed");
  if (fsync(descriptor_) != 0) throw_file_error("syncing", path_);
}

void OutputFile::close() {
  SOTTO_ASSERT(descriptor_ >= 0, "the file is closed");
  if (::close(std::exchange(descriptor_, -1)) != 0) throw_file_error("writing", path_);
}

FileSum write_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  OutputFile file = OutputFile::create(path);
  file.write(bytes);
  file.close();
  return file.sum();
}

}  // namespace sotto
