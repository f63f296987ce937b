#include "sotto/core/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "sotto/core/error.h"

namespace sotto {

MappedFile MappedFile::open(const std::filesystem::path& path, const std::string& expected) {
  // O_NONBLOCK, because opening a pipe would block.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    refuse_file(path, std::generic_category().message(errno), expected, /*hint=*/{});
  }
  try {
    MappedFile file = of_descriptor(descriptor, path, expected);
    ::close(descriptor);
    return file;
  } catch (...) {
    ::close(descriptor);
    throw;
  }
}

MappedFile MappedFile::of_descriptor(int descriptor, const std::filesystem::path& path,
                                     const std::string& expected) {
  struct stat status{};
  const bool known = fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  const auto size = known ? static_cast<size_t>(status.st_size) : 0;
  if (!known) refuse_file(path, "it is not a regular file", expected);
  if (size == 0) return MappedFile({});
  void* mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (mapped == MAP_FAILED) {
    refuse_file(path, std::generic_category().message(errno),
                "a file that can be mapped into memory");
  }
  return MappedFile({static_cast<const std::byte*>(mapped), size});
}

MappedFile::~MappedFile() {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): munmap takes no pointer to const
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::release() const {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): madvise takes no pointer to const
  if (!bytes_.empty()) madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_DONTNEED);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

void refuse_file(const std::filesystem::path& path, std::string found, std::string expected,
                 std::string hint) {
  throw DataError({.attempted = fmt::format("reading {}", path.string()),
                   .found = std::move(found),
                   .expected = std::move(expected),
                   .hint = std::move(hint)});
}

}  // namespace sotto
