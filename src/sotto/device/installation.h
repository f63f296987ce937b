// What this installation of sotto has, as it is found: the build, the machine, folders and tools.
// installation_check.h judges it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sotto/core/build_info.h"
#include "sotto/device/hardware.h"

namespace sotto::device {

struct FolderState {
  std::filesystem::path path;
  // Why no file can be written there, or, if the folder does not exist, in its closest existing
  // ancestor; empty where one was written.
  std::string failure = {};
  // Free disk space; std::nullopt if it is not known.
  std::optional<int64_t> free_bytes = {};
  // Name of a file system on which folders cannot be replaced safely; empty for others.
  std::string weak_file_system = {};
};

// Writes and removes a file of its own.
FolderState inspect_folder(const std::filesystem::path& path);

struct Installation {
  BuildInfo build;
  HardwareProfile hardware;
  // Threads that a run uses, and OMP_NUM_THREADS; std::nullopt if that is not a number.
  int64_t num_threads = 1;
  std::optional<int64_t> omp_threads = {};
  FolderState runs;
  FolderState cache;
  FolderState temporary;
  // Number of models in the cache of Hugging Face's tools; std::nullopt where there is no cache.
  std::filesystem::path hub;
  std::optional<int64_t> num_hub_models = {};
  // Path of espeak-ng; empty if it is not installed.
  std::filesystem::path espeak;
  // Whether the kernel has NVIDIA's driver, which a container shares even if it does not see a GPU.
  bool has_kernel_driver = false;
  // Why LibTorch cannot use a GPU, although the build has CUDA and there is one; empty where it
  // can.
  std::string cuda_failure = {};

  bool has_cuda() const { return !build.cuda.starts_with("off"); }
};

Installation read_installation();

}  // namespace sotto::device
