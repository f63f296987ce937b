// What the driver shows of whole runs of `sotto train`, from their start to their end. This program
// makes no context of its own on the GPU, so that what is added there is the run's.
#include <ATen/Context.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "sotto/core/units.h"
#include "sotto/device/gpu_info.h"
#include "sotto/device/gpu_memory_watch.h"
#include "support/thrown.h"
#include "support/train_runs.h"

namespace sotto::test {
namespace {

// The most that all processes hold on the first GPU, asked every 10 ms by a thread of its own.
class DriverWatch {
 public:
  DriverWatch()
      : watch_(device::read_gpus().gpus.at(0).uuid),
        before_(watch_.read().value().used_bytes),
        thread_([this](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            if (const auto memory = watch_.read()) {
              if (memory->used_bytes > most_) most_ = memory->used_bytes;
              ++samples_;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
          }
        }) {}

  int64_t most_added() {
    thread_.request_stop();
    thread_.join();
    return most_ - before_;
  }
  int64_t samples() const { return samples_; }

 private:
  device::GpuMemoryWatch watch_;
  int64_t before_;
  std::atomic<int64_t> most_ = 0;
  std::atomic<int64_t> samples_ = 0;
  std::jthread thread_;
};

struct BudgetCase {
  const char* name;
  const char* memory;
  std::vector<std::string> settings;
};

class CudaBudget : public TrainRuns, public ::testing::WithParamInterface<BudgetCase> {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "no GPU, or a build without CUDA";
    write_tiny_corpus(folder_.path(), "long", 160, 3);
  }
};

TEST_P(CudaBudget, IsNeverExceeded) {
  const BudgetCase& row = GetParam();
  const int64_t budget = MemorySize::parse(row.memory).bytes;
  const std::string base = folder_.path().string();
  std::vector<std::string> more = {
      "--device",           "cuda",        "--memory", row.memory, "--train",
      base + "/long.jsonl", "--max-steps", "12",       "--set",    "evaluate_every=6"};
  more.insert(more.end(), row.settings.begin(), row.settings.end());
  // The first run on a machine measures the card; the second knows it.
  for (const char* run : {"first", "second"}) {
    DriverWatch watch;
    const CommandResult result = train(run, more, {"XDG_CACHE_HOME=" + base + "/cache"});
    const int64_t most = watch.most_added();
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_LE(most, budget) << run << ": " << format_mebibytes(most) << " of " << row.memory;
    EXPECT_GT(most, budget / 4);
    EXPECT_GT(watch.samples(), 20);
    std::printf("%-16s %-6s %9s of %9s, %ld samples\n", row.name, run,
                format_mebibytes(most).c_str(), row.memory, static_cast<long>(watch.samples()));
  }
}

std::vector<std::string> network(int64_t layers, int64_t width) {
  const auto set = [](const char* key, int64_t value) {
    return fmt::format("model.{}={}", key, value);
  };
  return {"--set", set("layers", layers),    "--set", set("width", width),
          "--set", set("heads", width / 64), "--set", set("hidden", 4 * width)};
}

std::vector<std::string> with(std::vector<std::string> all, const std::vector<std::string>& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// Budgets that little more than the libraries and the weights fit into, in each arithmetic.
INSTANTIATE_TEST_SUITE_P(
    Runs, CudaBudget,
    ::testing::Values(
        BudgetCase{"small", "900MiB", network(4, 256)},
        BudgetCase{"auto", "1423MiB", network(8, 512)},
        BudgetCase{"fp32", "1500MiB", with(network(6, 512), {"--set", "numerics=fp32"})},
        BudgetCase{"bf16", "1700MiB", with(network(8, 768), {"--set", "numerics=bf16-exact"})},
        BudgetCase{"fp16", "2000MiB", with(network(8, 768), {"--set", "numerics=fp16"})},
        BudgetCase{"lean", "1600MiB", with(network(16, 768), {"--set", "numerics=bf16-lean"})},
        BudgetCase{"host", "1600MiB",
                   with(network(12, 768), {"--set", "optimizer.state=host", "--set", "tier=host",
                                           "--set", "numerics=bf16-exact"})},
        BudgetCase{"large", "3GiB", network(12, 1024)}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace sotto::test
