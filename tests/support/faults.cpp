// Loaded before the C library (LD_PRELOAD) into a program under test: makes one of its calls fail.
//
//   SOTTO_FAULT=write:12:28            the 12th write to a file below SOTTO_FAULT_UNDER fails with
//   errno 28 SOTTO_FAULT=malloc:40:65536        the 40th allocation of at least 65536 bytes fails
//
// Calls are open (for writing), write, fsync, rename and malloc. Each has its relatives: pwrite and
// writev count as write.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

extern "C" void* __libc_malloc(size_t bytes);  // NOLINT: glibc's name

namespace {

struct Fault {
  char call[16] = {};
  long number = 0;
  // An errno, or the least bytes of an allocation.
  long value = 0;
  const char* under = nullptr;
};

const Fault& fault() {
  static const Fault kFault = [] {
    Fault read;
    const char* text = std::getenv("SOTTO_FAULT");
    if (text == nullptr ||
        std::sscanf(text, "%15[^:]:%ld:%ld", read.call, &read.number, &read.value) != 3)
      read.call[0] = '\0';
    read.under = std::getenv("SOTTO_FAULT_UNDER");
    return read;
  }();
  return kFault;
}

bool is_due(std::string_view call) {
  static std::atomic<long> count = 0;
  return call == fault().call && ++count == fault().number;
}

bool is_under(const char* path) {
  return path != nullptr && fault().under != nullptr &&
         std::strncmp(path, fault().under, std::strlen(fault().under)) == 0;
}

bool is_under(int descriptor) {
  std::array<char, 64> link = {};
  std::array<char, 4096> path = {};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", descriptor);
  return readlink(link.data(), path.data(), path.size() - 1) > 0 && is_under(path.data());
}

// Whether this call is the one that fails; errno is then set.
template <class Where>
bool fails(std::string_view call, const Where& where) {
  if (call != fault().call || !is_under(where) || !is_due(call)) return false;
  errno = static_cast<int>(fault().value);
  return true;
}

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

// OpenMP's library ends the program where it gets no memory, whatever the program would do.
bool is_called_by_openmp(void* caller) {
  Dl_info info = {};
  return dladdr(caller, &info) != 0 && info.dli_fname != nullptr &&
         std::strstr(info.dli_fname, "libgomp") != nullptr;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = va_arg(arguments, mode_t);
  va_end(arguments);
  if ((flags & (O_WRONLY | O_RDWR)) != 0 && fails("open", path)) return -1;
  static const auto real = next<int (*)(const char*, int, ...)>("open");
  return real(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = va_arg(arguments, mode_t);
  va_end(arguments);
  if ((flags & (O_WRONLY | O_RDWR)) != 0 && fails("open", path)) return -1;
  static const auto real = next<int (*)(const char*, int, ...)>("open64");
  return real(path, flags, mode);
}

ssize_t write(int file, const void* bytes, size_t count) {
  if (fails("write", file)) return -1;
  static const auto real = next<ssize_t (*)(int, const void*, size_t)>("write");
  return real(file, bytes, count);
}

ssize_t pwrite64(int file, const void* bytes, size_t count, off64_t at) {
  if (fails("write", file)) return -1;
  static const auto real = next<ssize_t (*)(int, const void*, size_t, off64_t)>("pwrite64");
  return real(file, bytes, count, at);
}

ssize_t writev(int file, const iovec* parts, int count) {
  if (fails("write", file)) return -1;
  static const auto real = next<ssize_t (*)(int, const iovec*, int)>("writev");
  return real(file, parts, count);
}

int fsync(int file) {
  if (fails("fsync", file)) return -1;
  static const auto real = next<int (*)(int)>("fsync");
  return real(file);
}

int fdatasync(int file) {
  if (fails("fsync", file)) return -1;
  static const auto real = next<int (*)(int)>("fdatasync");
  return real(file);
}

int rename(const char* from, const char* to) {
  if (fails("rename", to)) return -1;
  static const auto real = next<int (*)(const char*, const char*)>("rename");
  return real(from, to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned int flags) {
  if (fails("rename", to)) return -1;
  static const auto real =
      next<int (*)(int, const char*, int, const char*, unsigned int)>("renameat2");
  return real(from_folder, from, to_folder, to, flags);
}

void* malloc(size_t bytes) {
  // Asked before main() too, when nothing may be allocated to answer.
  static std::atomic<int> is_asking = 0;
  if (bytes >= 4096 && is_asking.fetch_add(1) == 0) {
    const bool is_large = static_cast<long>(bytes) >= fault().value;
    const bool is_it = std::string_view(fault().call) == "malloc" && is_large &&
                       !is_called_by_openmp(__builtin_return_address(0)) && is_due("malloc");
    is_asking = 0;
    if (is_it) {
      errno = ENOMEM;
      return nullptr;
    }
  }
  return __libc_malloc(bytes);
}

}  // extern "C"
