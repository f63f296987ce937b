#include "sotto/device/installation_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>
#include <utility>

#include "sotto/core/units.h"
#include "sotto/device/cuda_requirements.h"
#include "sotto/device/memory_holders.h"

namespace sotto::device {

namespace {

using Verdict = Check::Verdict;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;
// The process alone takes about 250 MiB, a checkpoint of the smallest network some MiB.
constexpr int64_t kLeastHostBytes = 512 * kMiB;
constexpr int64_t kLowHostBytes = 2 * kGiB;
constexpr int64_t kLeastDiskBytes = 64 * kMiB;
constexpr int64_t kLowDiskBytes = 5 * kGiB;
// The driver's context and the libraries take 712 MiB (H200).
constexpr int64_t kLeastGpuBytes = kGiB;

constexpr const char* kRebuild = "tools/setup.sh && make build";

// Whether a summary of the build lists a library, and not as missing: "utf8proc, no SentencePiece".
bool has(const std::string& summary, std::string_view library) {
  const size_t at = summary.find(library);
  return at != std::string::npos && !std::string_view(summary).substr(0, at).ends_with("no ");
}

Check check_audio(const BuildInfo& build) {
  if (has(build.audio, "libsndfile, soxr")) return {.subject = "audio", .found = build.audio};
  return {.subject = "audio",
          .found = "16-bit WAV and FLAC, no resampling",
          .verdict = Verdict::kWarning,
          .advice = "apt-get install libsndfile1-dev libsoxr-dev && make build"};
}

Check check_text(const BuildInfo& build) {
  Check check{.subject = "text", .found = {}};
  std::string packages;
  for (const auto& [library, package] :
       {std::pair{"utf8proc", "libutf8proc-dev"}, {"SentencePiece", "libsentencepiece-dev"}}) {
    if (!check.found.empty()) check.found += ", ";
    const bool is_there = has(build.text, library);
    check.found += is_there ? library : fmt::format("no {}", library);
    if (!is_there) packages += fmt::format(" {}", package);
  }
  if (packages.empty()) return check;
  check.verdict = Verdict::kWarning;
  check.advice = fmt::format("apt-get install{} && make build", packages);
  return check;
}

Check check_threads(const Installation& installation) {
  const HostInfo& host = installation.hardware.host;
  const int64_t cores = installation.num_threads;
  Check check{.subject = "threads", .found = fmt::format("{} on {} cores", cores, host.num_cores)};
  if (host.cpu_quota_cores)
    check.found += fmt::format(", container limit {:.2g}", *host.cpu_quota_cores);
  if (!installation.omp_threads || *installation.omp_threads <= cores) return check;
  check.found = fmt::format("OMP_NUM_THREADS={} on {} cores", *installation.omp_threads, cores);
  check.verdict = Verdict::kWarning;
  check.advice = fmt::format("export OMP_NUM_THREADS={}", cores);
  return check;
}

Check check_ram(const HostInfo& host) {
  Check check{.subject = "RAM",
              .found = fmt::format("{} of {} free", format_bytes(host.free_bytes),
                                   format_bytes(host.total_bytes))};
  if (host.container_limit_bytes)
    check.found +=
        fmt::format(" (container limit; the machine has {})", format_bytes(host.machine_bytes));
  if (host.free_bytes >= kLowHostBytes) return check;
  check.verdict = host.free_bytes < kLeastHostBytes ? Verdict::kProblem : Verdict::kWarning;
  check.advice = host.container_limit_bytes ? "Give the container more memory."
                                            : "ps -eo rss,pid,comm --sort=-rss | head";
  return check;
}

// Number before the first point: "580.95.05" is 580; 0 if there is none.
int major_version(const std::string& version) {
  int major = 0;
  std::from_chars(version.data(), version.data() + version.size(), major);
  return major;
}

bool is_too_old(const GpuInfo& gpu) {
  return gpu.capability && gpu.capability->major * 10 + gpu.capability->minor < kOldestCapability;
}

Check check_driver(const Installation& installation) {
  const GpuProfile& profile = installation.hardware.gpu;
  const int major = major_version(profile.driver_version);
  Check check{.subject = "driver", .found = major > 0 ? profile.driver_version : "version unknown"};
  if (!profile.cuda_version.empty()) check.found += fmt::format(", CUDA {}", profile.cuda_version);
  if (major == 0 || major >= kOldestDriver) return check;
  check.verdict = Verdict::kWarning;
  check.advice = fmt::format(
      "Install an NVIDIA driver of version {} or later; until then add "
      "--device cpu.",
      kOldestDriver);
  return check;
}

Check check_cuda(const Installation& installation) {
  const bool has_gpu = !installation.hardware.gpu.gpus.empty();
  Check check{.subject = "CUDA", .found = installation.build.cuda};
  if (!installation.has_cuda()) {
    check.found = has_gpu ? "off: this build runs on the CPU alone" : "off";
    if (!has_gpu) return check;
    check.verdict = Verdict::kWarning;
    check.advice = kRebuild;
  } else if (!installation.cuda_failure.empty()) {
    check.found = installation.cuda_failure;
    check.verdict = Verdict::kProblem;
    check.advice = "Add --device cpu, or mend the driver: nvidia-smi";
  }
  return check;
}

Check check_gpu(const GpuInfo& gpu) {
  Check check{.subject = fmt::format("GPU {}", gpu.index),
              .found = gpu.name.empty() ? "unknown" : gpu.name};
  if (gpu.capability)
    check.found += fmt::format(", capability {}.{}", gpu.capability->major, gpu.capability->minor);
  if (!is_too_old(gpu)) return check;
  check.verdict = Verdict::kWarning;
  check.advice = fmt::format("A GPU of capability {}.{} or later is needed; add --device cpu.",
                             kOldestCapability / 10, kOldestCapability % 10);
  return check;
}

Check check_gpu_memory(const GpuInfo& gpu) {
  Check check{.subject = fmt::format("GPU {} memory", gpu.index), .found = "unknown"};
  if (!gpu.memory) return check;
  check.found = fmt::format("{} of {} free", format_bytes(gpu.memory->free_bytes),
                            format_bytes(gpu.memory->total_bytes));
  const std::vector<MemoryHolder> holders = memory_holders(gpu);
  if (!are_programs(holders)) return check;
  check.found += "; held by " + describe_holders(holders);
  check.verdict = Verdict::kWarning;
  check.advice = gpu.memory->free_bytes < kLeastGpuBytes
                     ? "End the processes that hold it, or add --device cpu."
                     : "End the processes that hold it, or add --memory auto.";
  return check;
}

std::vector<Check> check_gpus(const Installation& installation) {
  const GpuProfile& profile = installation.hardware.gpu;
  std::vector<Check> checks;
  if (profile.gpus.empty()) {
    const std::string reason = profile.notes.empty() ? "the driver reports none" : profile.notes[0];
    Check check{.subject = "GPU", .found = fmt::format("none ({})", reason)};
    if (installation.has_kernel_driver) {
      check.verdict = Verdict::kWarning;
      check.advice = "nvidia-smi shows why; in a container, start it with docker run --gpus all.";
    }
    checks.push_back(std::move(check));
    checks.push_back(check_cuda(installation));
    return checks;
  }
  checks.push_back(check_driver(installation));
  checks.push_back(check_cuda(installation));
  for (const GpuInfo& gpu : profile.gpus) {
    checks.push_back(check_gpu(gpu));
    checks.push_back(check_gpu_memory(gpu));
  }
  return checks;
}

// What to type where a folder cannot be used, and whether there is no training without it.
struct FolderUse {
  std::string subject;
  std::string other_folder;
  bool is_needed = false;
};

Check check_folder(const FolderUse& use, const FolderState& folder) {
  const Verdict worst = use.is_needed ? Verdict::kProblem : Verdict::kWarning;
  Check check{.subject = use.subject, .found = folder.path.string()};
  if (!folder.failure.empty()) {
    check.found += fmt::format(": not writable ({})", folder.failure);
    check.verdict = worst;
    check.advice = use.other_folder;
    return check;
  }
  if (folder.free_bytes)
    check.found += fmt::format(": writable, {} free", format_bytes(*folder.free_bytes));
  if (folder.free_bytes && *folder.free_bytes < kLowDiskBytes) {
    check.verdict = *folder.free_bytes < kLeastDiskBytes ? worst : Verdict::kWarning;
    check.advice = "du -sh runs ~/.cache";
  } else if (!folder.weak_file_system.empty()) {
    check.found +=
        fmt::format(", on {}: checkpoints are not replaced at once", folder.weak_file_system);
    check.verdict = Verdict::kWarning;
    check.advice = use.other_folder;
  }
  return check;
}

Check check_hub(const Installation& installation) {
  const std::string path = installation.hub.string();
  if (!installation.num_hub_models)
    return {.subject = "Hugging Face", .found = fmt::format("no cache at {}", path)};
  return {.subject = "Hugging Face",
          .found = fmt::format("{}: {} {}", path, *installation.num_hub_models,
                               *installation.num_hub_models == 1 ? "model" : "models")};
}

Check check_espeak(const std::filesystem::path& espeak) {
  if (!espeak.empty()) return {.subject = "espeak-ng", .found = espeak.string()};
  return {.subject = "espeak-ng",
          .found = "not installed: no sotto data demo, no make demo",
          .verdict = Verdict::kWarning,
          .advice = "apt-get install espeak-ng"};
}

}  // namespace

std::vector<Check> check_installation(const Installation& installation) {
  const BuildInfo& build = installation.build;
  const HostInfo& host = installation.hardware.host;
  std::vector<Check> checks = {
      {.subject = "sotto", .found = fmt::format("{}, commit {}", build.version, build.commit)},
      {.subject = "LibTorch", .found = build.torch},
      check_audio(build),
      check_text(build),
      {.subject = "CPU",
       .found = fmt::format("{}, kernels for {}", host.cpu_model, build.cpu_level)},
      check_threads(installation),
      check_ram(host)};
  std::ranges::move(check_gpus(installation), std::back_inserter(checks));
  checks.push_back(check_folder({.subject = "runs",
                                 .other_folder = "cd to a folder of your own, or add --out FOLDER.",
                                 .is_needed = true},
                                installation.runs));
  checks.push_back(
      check_folder({.subject = "cache", .other_folder = "export XDG_CACHE_HOME=$PWD/.cache"},
                   installation.cache));
  checks.push_back(
      check_folder({.subject = "temporary files", .other_folder = "export TMPDIR=$PWD"},
                   installation.temporary));
  checks.push_back(check_hub(installation));
  checks.push_back(check_espeak(installation.espeak));
  return checks;
}

}  // namespace sotto::device
