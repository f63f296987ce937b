#include "sotto/device/gpu_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "sotto/core/system_file.h"
#include "sotto/core/words.h"
#include "sotto/device/nvml.h"

namespace sotto::device {

namespace {

// Longer than any text NVML returns (its own limit is 96).
constexpr unsigned int kTextBytes = 256;

std::string process_name(const std::filesystem::path& root, int64_t pid) {
  const std::filesystem::path folder = root / "proc" / std::to_string(pid);
  std::string name(trimmed(read_text(folder / "comm").value_or("")));
  if (!name.empty()) return name;
  // The words of a command line are terminated by zero bytes; the first is the program.
  const std::string words = read_text(folder / "cmdline").value_or("");
  return std::filesystem::path(words.c_str()).filename().string();
}

// Queries NVML value by value; a function that is missing or unsupported leaves its field absent,
// one that fails also adds a note.
class Reader {
 public:
  Reader(const nvml::Session& session, const std::filesystem::path& root)
      : session_(session), nvml_(session.functions()), root_(root) {}

  GpuProfile read() {
    std::array<char, kTextBytes> text = {};
    if (nvml_.driver_version &&
        succeeds(nvml_.driver_version(text.data(), kTextBytes), "the driver's version"))
      profile_.driver_version = text.data();
    int version = 0;
    if (nvml_.cuda_version && succeeds(nvml_.cuda_version(&version), "the driver's CUDA version"))
      profile_.cuda_version = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
    unsigned int count = 0;
    if (succeeds(nvml_.device_count(&count), "the number of GPUs") && count == 0)
      profile_.notes.emplace_back("the driver reports none");
    for (unsigned int i = 0; i < count; ++i) read_gpu(i);
    return std::move(profile_);
  }

 private:
  bool succeeds(nvml::Status status, std::string_view subject) {
    if (status != nvml::kSuccess && status != nvml::kNotSupported)
      profile_.notes.push_back(fmt::format("{}: {}", subject, session_.describe(status)));
    return status == nvml::kSuccess;
  }

  void read_gpu(unsigned int index) {
    const std::string gpu = fmt::format("GPU {}", index);
    nvml::Device device = nullptr;
    const nvml::Status found = nvml_.device_by_index(index, &device);
    if (found != nvml::kSuccess) {
      profile_.notes.push_back(fmt::format("{} is skipped: {}", gpu, session_.describe(found)));
      return;
    }
    GpuInfo info = {.index = index};
    std::array<char, kTextBytes> text = {};
    if (nvml_.device_name &&
        succeeds(nvml_.device_name(device, text.data(), kTextBytes), gpu + ", name"))
      info.name = text.data();
    if (nvml_.device_uuid &&
        succeeds(nvml_.device_uuid(device, text.data(), kTextBytes), gpu + ", UUID"))
      info.uuid = text.data();
    nvml::Memory memory = {};
    if (nvml_.device_memory && succeeds(nvml_.device_memory(device, &memory), gpu + ", memory")) {
      info.memory = GpuMemory{.total_bytes = static_cast<int64_t>(memory.total),
                              .used_bytes = static_cast<int64_t>(memory.used),
                              .free_bytes = static_cast<int64_t>(memory.free)};
    }
    read_abilities(device, gpu, info);
    read_processes(device, gpu, info);
    profile_.gpus.push_back(std::move(info));
  }

  void read_abilities(nvml::Device device, const std::string& gpu, GpuInfo& info) {
    ComputeCapability capability;
    if (!nvml_.device_capability ||
        !succeeds(nvml_.device_capability(device, &capability.major, &capability.minor),
                  gpu + ", capability"))
      return;
    info.capability = capability;
    // NVML reports cores, not multiprocessors.
    unsigned int cores = 0;
    const std::optional<int64_t> per_sm = cores_per_sm(capability);
    if (per_sm && nvml_.device_num_cores &&
        succeeds(nvml_.device_num_cores(device, &cores), gpu + ", cores"))
      info.num_sms = cores / *per_sm;
  }

  void read_processes(nvml::Device device, const std::string& gpu, GpuInfo& info) {
    info.processes = list_processes(nvml_.compute_processes, device, gpu + ", compute processes");
    // A process that both computes and renders is in both lists, with the same bytes.
    const std::vector<GpuProcess> compute = info.processes;
    for (GpuProcess& process :
         list_processes(nvml_.graphics_processes, device, gpu + ", graphics processes")) {
      const bool known = std::any_of(compute.begin(), compute.end(), [&](const GpuProcess& other) {
        return other.pid == process.pid;
      });
      if (!known) info.processes.push_back(std::move(process));
    }
    std::stable_sort(info.processes.begin(), info.processes.end(),
                     [](const GpuProcess& a, const GpuProcess& b) {
                       return a.used_bytes.value_or(0) > b.used_bytes.value_or(0);
                     });
  }

  using ListFunction = decltype(nvml::Functions::compute_processes);

  std::vector<GpuProcess> list_processes(ListFunction list, nvml::Device device,
                                         const std::string& subject) {
    if (list == nullptr) return {};
    std::vector<nvml::Process> entries;
    nvml::Status status = nvml::kInsufficientSize;
    // Processes may start between the queries: reserves spare room and limits the number of
    // attempts.
    for (int attempt = 0; attempt < 4 && status == nvml::kInsufficientSize; ++attempt) {
      auto count = static_cast<unsigned int>(entries.size());
      status = list(device, &count, entries.empty() ? nullptr : entries.data());
      if (status == nvml::kInsufficientSize) entries.resize(count + 8);
      if (status == nvml::kSuccess) entries.resize(count);
    }
    if (!succeeds(status, subject)) return {};
    std::vector<GpuProcess> processes;
    for (const nvml::Process& entry : entries) {
      GpuProcess process = {.pid = entry.pid, .name = process_name(root_, entry.pid)};
      if (entry.used_bytes != nvml::kUnknownBytes)
        process.used_bytes = static_cast<int64_t>(entry.used_bytes);
      processes.push_back(std::move(process));
    }
    return processes;
  }

  const nvml::Session& session_;
  const nvml::Functions& nvml_;
  const std::filesystem::path& root_;
  GpuProfile profile_;
};

}  // namespace

GpuProfile read_gpus(const GpuSource& source) {
  const nvml::Session session(source.library);
  if (!session.failure().empty()) return {.notes = {session.failure()}};
  return Reader(session, source.root).read();
}

std::optional<int64_t> cores_per_sm(ComputeCapability capability) {
  const auto [major, minor] = capability;
  if (major == 7 && (minor == 0 || minor == 5)) return 64;
  if (major == 8 && minor == 0) return 64;
  if (major == 8 && (minor == 6 || minor == 7 || minor == 9)) return 128;
  if (major == 9 && minor == 0) return 128;
  if (major == 10 || major == 12) return 128;
  return std::nullopt;
}

}  // namespace sotto::device
