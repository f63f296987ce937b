#include "sotto/device/installation.h"

#include <gtest/gtest.h>

#include <functional>

#include "sotto/device/installation_check.h"
#include "support/bytes.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::device {
namespace {

using test::kGiB;
using Verdict = Check::Verdict;

FolderState good_folder() {
  return {.path = "/ada/runs", .free_bytes = 100 * kGiB};
}

Installation good_installation() {
  return {.build = {.version = "0.1.0",
                    .commit = "af727c1",
                    .torch = "2.11.0",
                    .cuda = "13.0.88 for 90",
                    .audio = "libsndfile, soxr",
                    .text = "utf8proc, SentencePiece",
                    .cpu_level = "x86-64-v3"},
          .hardware = {.host = {.cpu_model = "Xeon",
                                .num_cores = 8,
                                .machine_bytes = 64 * kGiB,
                                .total_bytes = 64 * kGiB,
                                .free_bytes = 60 * kGiB},
                       .gpu = {.driver_version = "580.95.05",
                               .cuda_version = "13.1",
                               .gpus = {{.name = "NVIDIA H200",
                                         .capability = ComputeCapability{9, 0},
                                         .memory = GpuMemory{.total_bytes = 140 * kGiB,
                                                             .used_bytes = kGiB / 2,
                                                             .free_bytes = 139 * kGiB}}}}},
          .num_threads = 8,
          .runs = good_folder(),
          .cache = good_folder(),
          .temporary = good_folder(),
          .hub = "/ada/.cache/huggingface/hub",
          .num_hub_models = 2,
          .espeak = "/usr/bin/espeak-ng"};
}

// Returns the check of a subject; fails the test if there is none, or if another is not ok.
Check only_complaint(const Installation& installation, const std::string& subject) {
  Check found;
  for (const Check& check : check_installation(installation)) {
    if (check.subject == subject) {
      found = check;
    } else {
      EXPECT_EQ(check.verdict, Verdict::kOk) << check.subject << ": " << check.found;
      EXPECT_EQ(check.advice, "") << check.subject;
    }
  }
  EXPECT_EQ(found.subject, subject);
  return found;
}

TEST(InstallationCheck, GoodMachineHasNoComplaints) {
  const Check check = only_complaint(good_installation(), "RAM");
  EXPECT_EQ(check.verdict, Verdict::kOk);
  EXPECT_EQ(check.found, "60.0 GiB of 64.0 GiB free");
}

TEST(InstallationCheck, MachineWithoutGpuHasNoComplaints) {
  Installation installation = good_installation();
  installation.build.cuda = "off";
  installation.hardware.gpu = {.notes = {"libnvidia-ml.so.1 is not there"}};
  const Check check = only_complaint(installation, "GPU");
  EXPECT_EQ(check.verdict, Verdict::kOk);
  EXPECT_EQ(check.found, "none (libnvidia-ml.so.1 is not there)");
}

struct Complaint {
  std::string subject;
  Verdict verdict;
  std::string found;
  std::string advice;
  std::function<void(Installation&)> change;
};

TEST(InstallationCheck, EachLackHasItsVerdictAndAdvice) {
  const std::vector<Complaint> complaints = {
      {"audio", Verdict::kWarning, "16-bit WAV and FLAC, no resampling",
       "apt-get install libsndfile1-dev libsoxr-dev && make build",
       [](Installation& at) { at.build.audio = "16-bit WAV and FLAC, no resampling (other)"; }},
      {"text", Verdict::kWarning, "utf8proc, no SentencePiece",
       "apt-get install libsentencepiece-dev && make build",
       [](Installation& at) {
         at.build.text = "utf8proc, no SentencePiece (to have it: apt-get install x)";
       }},
      {"threads", Verdict::kWarning, "OMP_NUM_THREADS=64 on 8 cores", "export OMP_NUM_THREADS=8",
       [](Installation& at) { at.omp_threads = 64; }},
      {"RAM", Verdict::kWarning, "1.00 GiB of 64.0 GiB free", "ps -eo rss,pid,comm",
       [](Installation& at) { at.hardware.host.free_bytes = kGiB; }},
      {"RAM", Verdict::kProblem, "256 MiB of 2.00 GiB free (container limit; the machine has 64.0",
       "Give the container more memory.",
       [](Installation& at) {
         at.hardware.host.free_bytes = kGiB / 4;
         at.hardware.host.total_bytes = 2 * kGiB;
         at.hardware.host.container_limit_bytes = 2 * kGiB;
       }},
      {"driver", Verdict::kWarning, "570.86.10", "version 580 or later",
       [](Installation& at) { at.hardware.gpu.driver_version = "570.86.10"; }},
      {"CUDA", Verdict::kWarning, "off", "tools/setup.sh && make build",
       [](Installation& at) { at.build.cuda = "off (nvcc found, no GPU)"; }},
      {"CUDA", Verdict::kProblem, "using a GPU: unknown error", "--device cpu",
       [](Installation& at) { at.cuda_failure = "using a GPU: unknown error"; }},
      {"GPU", Verdict::kWarning, "none (libnvidia-ml.so.1 does not start)", "nvidia-smi",
       [](Installation& at) {
         at.hardware.gpu = {.notes = {"libnvidia-ml.so.1 does not start"}};
         at.has_kernel_driver = true;
       }},
      {"GPU 0", Verdict::kWarning, "capability 7.0", "capability 7.5 or later",
       [](Installation& at) { at.hardware.gpu.gpus[0].capability = ComputeCapability{7, 0}; }},
      {"runs", Verdict::kProblem, "/ada/runs: not writable (Read-only file system)", "--out FOLDER",
       [](Installation& at) { at.runs.failure = "Read-only file system"; }},
      {"runs", Verdict::kWarning, "1.00 GiB free", "du -sh runs ~/.cache",
       [](Installation& at) { at.runs.free_bytes = kGiB; }},
      {"runs", Verdict::kProblem, "1.00 MiB free", "du -sh runs ~/.cache",
       [](Installation& at) { at.runs.free_bytes = 1 << 20; }},
      {"runs", Verdict::kWarning, "on vfat", "--out FOLDER",
       [](Installation& at) { at.runs.weak_file_system = "vfat"; }},
      {"cache", Verdict::kWarning, "not writable", "export XDG_CACHE_HOME=$PWD/.cache",
       [](Installation& at) { at.cache.failure = "Permission denied"; }},
      {"temporary files", Verdict::kWarning, "not writable", "export TMPDIR=$PWD",
       [](Installation& at) { at.temporary.failure = "No space left on device"; }},
      {"espeak-ng", Verdict::kWarning, "not installed", "apt-get install espeak-ng",
       [](Installation& at) { at.espeak.clear(); }}};
  for (const Complaint& complaint : complaints) {
    Installation installation = good_installation();
    complaint.change(installation);
    const Check check = only_complaint(installation, complaint.subject);
    EXPECT_EQ(check.verdict, complaint.verdict) << check.subject << ": " << check.found;
    EXPECT_PRED2(test::contains, check.found, complaint.found);
    EXPECT_PRED2(test::contains, check.advice, complaint.advice);
  }
}

TEST(InstallationCheck, ProcessesThatHoldGpuMemoryAreNamed) {
  const test::TempFolder tree;
  tree.write("proc/4242/comm", "python3\n");
  Installation installation = good_installation();
  installation.hardware.gpu = read_gpus({.library = SOTTO_FAKE_NVML, .root = tree.path()});
  const Check check = only_complaint(installation, "GPU 0 memory");
  EXPECT_EQ(check.verdict, Verdict::kWarning);
  EXPECT_PRED2(test::contains, check.found,
               "135 GiB of 140 GiB free; held by python3 (pid 4242) 3.00 GiB, ");
  EXPECT_PRED2(test::contains, check.advice, "--memory auto");
}

TEST(InspectFolder, WritesAFileAndLeavesNone) {
  const test::TempFolder folder;
  const FolderState state = inspect_folder(folder.path() / "not" / "there");
  EXPECT_EQ(state.failure, "");
  EXPECT_GT(state.free_bytes.value_or(0), 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(InspectFolder, TellsWhyNothingCanBeWritten) {
  const test::TempFolder folder;
  EXPECT_EQ(inspect_folder(folder.write("runs", "a file")).failure, "Not a directory");
}

// Values differ by machine, but each was read.
TEST(ReadInstallation, ReadsThisMachine) {
  const Installation installation = read_installation();
  EXPECT_FALSE(installation.build.torch.empty());
  EXPECT_GE(installation.num_threads, 1);
  EXPECT_GT(installation.hardware.host.total_bytes, 0);
  EXPECT_EQ(installation.runs.path.filename(), "runs");
  EXPECT_FALSE(installation.hub.empty());
}

}  // namespace
}  // namespace sotto::device
