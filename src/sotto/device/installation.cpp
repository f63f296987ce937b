#include "sotto/device/installation.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "sotto/core/error.h"
#include "sotto/core/files/cache_folder.h"
#include "sotto/core/files/file_system.h"
#include "sotto/core/files/hub_cache.h"
#include "sotto/core/processors.h"
#include "sotto/core/words.h"
#include "sotto/device/cuda_device.h"

namespace sotto::device {

namespace {

namespace fs = std::filesystem;

// Returns the folder itself, or the ancestor in which it would be created.
fs::path existing_ancestor(const fs::path& path) {
  std::error_code ignored;
  fs::path at = fs::absolute(path);
  while (!fs::exists(at, ignored) && at != at.root_path()) at = at.parent_path();
  return at;
}

// Returns why no file can be written in a folder; empty if one can. Permissions alone would not
// tell: the disk may be read-only, or full.
std::string write_failure(const fs::path& folder) {
  std::string pattern = (folder / ".sotto-doctor-XXXXXX").string();
  const int descriptor = ::mkstemp(pattern.data());
  if (descriptor < 0) return std::generic_category().message(errno);
  std::string failure;
  if (::write(descriptor, "sotto", 5) != 5) failure = std::generic_category().message(errno);
  ::close(descriptor);
  ::unlink(pattern.c_str());
  return failure;
}

// Returns the path of a program in PATH; empty if there is none.
fs::path find_program(const std::string& name) {
  const char* value = std::getenv("PATH");
  std::string_view rest = value == nullptr ? "" : value;
  while (!rest.empty()) {
    const size_t end = rest.find(':');
    const fs::path program = fs::path(rest.substr(0, end)) / name;
    if (::access(program.c_str(), X_OK) == 0) return program;
    rest = end == std::string_view::npos ? "" : rest.substr(end + 1);
  }
  return {};
}

std::optional<int64_t> count_hub_models(const fs::path& hub) {
  std::error_code error;
  int64_t count = 0;
  for (fs::directory_iterator entry(hub, error), end; !error && entry != end;
       entry.increment(error))
    if (entry->path().filename().string().starts_with("models--")) ++count;
  return error ? std::nullopt : std::optional(count);
}

std::string find_cuda_failure(const Installation& installation) {
  if (!installation.has_cuda() || installation.hardware.gpu.gpus.empty()) return {};
  try {
    read_cuda_device();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

fs::path temporary_folder() {
  std::error_code error;
  const fs::path folder = fs::temp_directory_path(error);
  return error ? fs::path("/tmp") : folder;
}

}  // namespace

FolderState inspect_folder(const fs::path& path) {
  const fs::path folder = existing_ancestor(path);
  FolderState state{.path = path,
                    .failure = write_failure(folder),
                    .weak_file_system = file_system_at(folder).name};
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (!error) state.free_bytes = static_cast<int64_t>(space.available);
  return state;
}

Installation read_installation() {
  Installation installation{.build = build_info(),
                            .hardware = read_hardware(),
                            .num_threads = num_threads(),
                            .runs = inspect_folder(fs::absolute("runs")),
                            .cache = inspect_folder(cache_folder()),
                            .temporary = inspect_folder(temporary_folder()),
                            .hub = hub_folder(),
                            .espeak = find_program("espeak-ng")};
  if (const char* threads = std::getenv("OMP_NUM_THREADS"))
    installation.omp_threads = parse_integer(threads);
  std::error_code ignored;
  installation.has_kernel_driver = fs::exists("/proc/driver/nvidia/version", ignored);
  installation.num_hub_models = count_hub_models(installation.hub);
  installation.cuda_failure = find_cuda_failure(installation);
  return installation;
}

}  // namespace sotto::device
