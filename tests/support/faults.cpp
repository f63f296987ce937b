// A library for LD_PRELOAD in which calls of the system fail as the environment says:
//
//   SOTTO_FAULTS=CALL:ERROR:PATH[:FIRST[-[LAST]]],...
//
// CALL is open, write, fsync, rename or mkdir; ERROR is a number of errno; PATH is part of the path
// that the call is about, where `*` stands for anything; with `$` behind it, its end. Of the calls
// that match, those from FIRST to LAST fail, counted from 1; without FIRST all do.
//
//   SOTTO_MALLOC_FAULT=NUMBER:BYTES
//
// The NUMBER-th allocation of at least BYTES, 4096 or more, fails, counted from the start of
// main().
#include <dlfcn.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

extern "C" void* __libc_malloc(size_t bytes);  // NOLINT: glibc's own name

namespace {

struct Rule {
  std::string call;
  int error = 0;
  // As fnmatch() has it.
  std::string path;
  long first = 1;
  long last = std::numeric_limits<long>::max();
  // Calls so far that match.
  std::atomic<long>* count = nullptr;
};

// The number at the beginning of a text; 0 where there is none. Allocates nothing.
long number_at(std::string_view text) {
  long number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

Rule parse_rule(const std::string& text) {
  Rule rule;
  std::istringstream stream(text);
  std::string number;
  std::getline(stream, rule.call, ':');
  std::getline(stream, number, ':');
  rule.error = static_cast<int>(number_at(number));
  std::string path;
  std::getline(stream, path, ':');
  const bool is_end = path.ends_with('$');
  if (is_end) path.pop_back();
  rule.path = '*';
  rule.path += path;
  if (!is_end) rule.path += '*';
  std::string range;
  if (std::getline(stream, range, ':')) {
    rule.first = number_at(range);
    const size_t dash = range.find('-');
    if (dash == std::string::npos) rule.last = rule.first;
    if (dash + 1 < range.size() && dash != std::string::npos)
      rule.last = number_at(std::string_view(range).substr(dash + 1));
  }
  rule.count = new std::atomic<long>(0);
  return rule;
}

// Never destroyed: calls come until the very end of the process.
const std::vector<Rule>& rules() {
  static const std::vector<Rule>& all = *[] {
    auto* parsed = new std::vector<Rule>;
    const char* text = std::getenv("SOTTO_FAULTS");
    std::istringstream stream(text == nullptr ? "" : text);
    for (std::string rule; std::getline(stream, rule, ',');) parsed->push_back(parse_rule(rule));
    return parsed;
  }();
  return all;
}

// Whether this call fails; errno is then set.
bool fails(std::string_view call, const std::string& path) {
  for (const Rule& rule : rules()) {
    if (rule.call != call) continue;
    if (fnmatch(rule.path.c_str(), path.c_str(), 0) != 0) continue;
    const long number = ++*rule.count;
    if (number < rule.first || number > rule.last) continue;
    errno = rule.error;
    return true;
  }
  return false;
}

bool fails(std::string_view call, int descriptor) {
  if (rules().empty()) return false;
  std::array<char, 64> link{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", descriptor);
  std::array<char, 4096> path{};
  const ssize_t size = readlink(link.data(), path.data(), path.size());
  return size > 0 && fails(call, std::string(path.data(), static_cast<size_t>(size)));
}

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

// Parsed without an allocation.
struct MallocFault {
  long number = 0;
  long least_bytes = 0;

  static const MallocFault& from_environment() {
    static const MallocFault fault = [] {
      MallocFault parsed;
      const char* text = std::getenv("SOTTO_MALLOC_FAULT");
      const std::string_view words = text == nullptr ? "" : text;
      parsed.number = number_at(words);
      parsed.least_bytes = number_at(words.substr(std::min(words.find(':'), words.size() - 1) + 1));
      return parsed;
    }();
    return fault;
  }
};

// Libraries that end the program where they get no memory, whatever it would do: OpenMP's says so
// and exits, NVIDIA's BLAS for Arm writes to what it did not get.
bool is_of_a_library_that_dies(void* caller) {
  Dl_info info = {};
  if (dladdr(caller, &info) == 0 || info.dli_fname == nullptr) return false;
  return std::strstr(info.dli_fname, "libgomp") != nullptr ||
         std::strstr(info.dli_fname, "libnvpl") != nullptr;
}

using Main = int (*)(int, char**, char**);
Main program_main = nullptr;
std::atomic<bool> has_started = false;

// Libraries allocate before main() too, where nobody could catch what is thrown.
int start_program(int argc, char** argv, char** environment) {
  has_started = true;
  return program_main(argc, argv, environment);
}

// fcntl.h is not included, because it may define open() itself.
constexpr int kCreates = 0100;

mode_t mode_of(int flags, va_list arguments) {
  return (flags & kCreates) != 0 ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
}

}  // namespace

extern "C" {

// NOLINTBEGIN: names and forms are the system's.
int open(const char* path, int flags, ...);
int open64(const char* path, int flags, ...);

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  if (fails("open", path)) return -1;
  static const auto next = real<int (*)(const char*, int, ...)>("open");
  return next(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  if (fails("open", path)) return -1;
  static const auto next = real<int (*)(const char*, int, ...)>("open64");
  return next(path, flags, mode);
}

ssize_t write(int descriptor, const void* bytes, size_t size) {
  if (fails("write", descriptor)) return -1;
  static const auto next = real<ssize_t (*)(int, const void*, size_t)>("write");
  return next(descriptor, bytes, size);
}

int fsync(int descriptor) {
  if (fails("fsync", descriptor)) return -1;
  static const auto next = real<int (*)(int)>("fsync");
  return next(descriptor);
}

int mkdir(const char* path, mode_t mode) noexcept {
  if (fails("mkdir", path)) return -1;
  static const auto next = real<int (*)(const char*, mode_t)>("mkdir");
  return next(path, mode);
}

int rename(const char* from, const char* to) noexcept {
  if (fails("rename", to)) return -1;
  static const auto next = real<int (*)(const char*, const char*)>("rename");
  return next(from, to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned int flags) noexcept {
  if (fails("rename", to)) return -1;
  static const auto next =
      real<int (*)(int, const char*, int, const char*, unsigned int)>("renameat2");
  return next(from_folder, from, to_folder, to, flags);
}

int __libc_start_main(Main main, int argc, char** argv, void (*init)(), void (*fini)(),
                      void (*rtld_fini)(), void* stack_end) {
  program_main = main;
  static const auto next = real<decltype(&__libc_start_main)>("__libc_start_main");
  return next(start_program, argc, argv, init, fini, rtld_fini, stack_end);
}

void* malloc(size_t bytes) noexcept {
  static std::atomic<long> count = 0;
  constexpr size_t kLeast = 4096;
  if (bytes >= kLeast && has_started) {
    const MallocFault& fault = MallocFault::from_environment();
    if (fault.number > 0 && static_cast<long>(bytes) >= fault.least_bytes &&
        !is_of_a_library_that_dies(__builtin_return_address(0)) && ++count == fault.number) {
      errno = ENOMEM;
      return nullptr;
    }
  }
  return __libc_malloc(bytes);
}
// NOLINTEND

}  // extern "C"
