#include "sotto/core/files/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "sotto/core/files/mapped_file.h"
#include "sotto/core/files/output_file.h"

namespace sotto {

InputFile::InputFile(std::filesystem::path path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

InputFile InputFile::open(const std::filesystem::path& path, const std::string& expected) {
  // O_NONBLOCK, because opening a pipe would block.
  InputFile file(path, ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.descriptor_ < 0)
    refuse_file(path, std::generic_category().message(errno), expected, /*hint=*/{});
  struct stat status{};
  const bool is_known = fstat(file.descriptor_, &status) == 0;
  if (is_known && S_ISDIR(status.st_mode)) refuse_file(path, "it is a folder", expected, {});
  if (!is_known || !S_ISREG(status.st_mode))
    refuse_file(path, "it is not a regular file", expected, {});
  file.size_ = status.st_size;
  file.changed_ns_ = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  return file;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      changed_ns_(other.changed_ns_) {}

int64_t InputFile::read(int64_t offset, std::span<char> bytes) const {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::pread(descriptor_, bytes.data() + done, bytes.size() - done,
                                offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_file_error("reading", path_);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return static_cast<int64_t>(done);
}

void InputFile::read_all(int64_t offset, std::span<char> bytes) const {
  const int64_t got = read(offset, bytes);
  if (got == std::ssize(bytes)) return;
  refuse_file(path_, fmt::format("it ends at byte {}", offset + got),
              fmt::format("{} bytes, as when it was opened", size_),
              "It was truncated or replaced while in use.");
}

int64_t FilePart::read(int64_t at, std::span<char> bytes) const {
  const int64_t left = std::max<int64_t>(0, size - at);
  const auto count = static_cast<size_t>(std::min(left, std::ssize(bytes)));
  return file->read(offset + at, bytes.first(count));
}

void InputFile::forget() const {
  posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
}

}  // namespace sotto
