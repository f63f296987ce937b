#include "fuzz/fuzz_target.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <system_error>

#include "sotto/core/error.h"
#include "support/reader_checks.h"

namespace sotto::fuzz {

namespace {

[[noreturn]] void fail(const char* doing) {
  throw std::system_error(errno, std::generic_category(), doing);
}

void write_all(int descriptor, std::string_view bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t written =
        pwrite(descriptor, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (written < 0) fail("writing a file in memory");
    done += static_cast<size_t>(written);
  }
}

void write_seeds(const std::filesystem::path& folder) {
  int number = 0;
  for (const std::string& seed : seeds()) {
    std::ofstream file(folder / fmt::format("seed-{}", number++), std::ios::binary);
    file << seed;
    file.close();
    if (!file) fail("writing a seed");
  }
}

}  // namespace

std::filesystem::path file_of(std::string_view bytes) {
  static const int descriptor = memfd_create("input", MFD_CLOEXEC);
  if (descriptor < 0 || ftruncate(descriptor, 0) != 0) fail("making a file in memory");
  write_all(descriptor, bytes);
  return fmt::format("/proc/self/fd/{}", descriptor);
}

void allow_refusal(const std::filesystem::path& name, const std::function<void()>& call) {
  std::string message;
  try {
    return call();
  } catch (const DataError& error) {
    message = error.what();
  } catch (const ConfigError& error) {
    message = error.what();
  }
  test::expect_promise(message.find(name.string()) != std::string::npos,
                       fmt::format("'{}' names {}", message, name.string()));
}

}  // namespace sotto::fuzz

// The names are libFuzzer's and the linker's.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sotto::fuzz::read({reinterpret_cast<const char*>(data), size});
  return 0;
}

int LLVMFuzzerInitialize(int* count, char*** arguments) {
  for (int i = 1; i < *count; ++i) {
    const std::filesystem::path folder = (*arguments)[i];
    if (!std::filesystem::is_directory(folder)) continue;
    sotto::fuzz::write_seeds(folder);
    break;
  }
  return 0;
}

// The linker puts these in the place of mmap and munmap (--wrap). A mapping ends with a page: what
// lies between the end of the file and that of the page can be read, and no sanitizer sees it.
void* __wrap_mmap(void* /*address*/, size_t length, int /*protection*/, int /*flags*/,
                  int descriptor, off_t offset) {
  void* copy = std::malloc(length);
  size_t done = 0;
  while (done < length) {
    const ssize_t got = pread(descriptor, static_cast<char*>(copy) + done, length - done,
                              offset + static_cast<off_t>(done));
    if (got <= 0) {
      std::free(copy);
      return MAP_FAILED;
    }
    done += static_cast<size_t>(got);
  }
  return copy;
}

int __wrap_munmap(void* address, size_t /*length*/) {
  std::free(address);
  return 0;
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
