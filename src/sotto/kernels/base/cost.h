// Costs of kernels. Every kernel reports its arithmetic and the bytes it must move; with the rates
// of a device they give seconds, and the sum over a step is the time model. Reports go to the
// active recorder of this thread, if any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace sotto::kernels {

// Kinds of work with different speeds: on the device matrix products and attention in fp32 and in
// 16 bits, and everything else; copies over the link between device and host, in each direction,
// which happen concurrently.
enum class Work {
  kElementwise,
  kProduct32,
  kProduct16,
  kAttention32,
  kAttention16,
  kCopyToHost,
  kCopyToDevice
};
inline constexpr size_t kNumDeviceWorks = 5;

inline bool is_copy(Work work) {
  return work == Work::kCopyToHost || work == Work::kCopyToDevice;
}

// How often a kernel runs: for each micro-batch, or once per step, as those of the optimizer do.
enum class Frequency { kMicroBatch, kStep };

struct Cost {
  double flops = 0.0;
  double bytes = 0.0;  // read and written, each operand counted once
  Work work = Work::kElementwise;
  Frequency frequency = Frequency::kMicroBatch;
};

// Speed of a device.
struct Rates {
  // Operations per second by kind of work on the device.
  std::array<double, kNumDeviceWorks> flops_per_s = {};
  // Bandwidth of the device's memory, and of the link in one direction.
  double bytes_per_s = 0.0;
  double link_bytes_per_s = 0.0;
  // Fixed overhead of a call: filling the device, and the pause after it.
  std::array<double, kNumDeviceWorks> seconds_per_call = {};
  // Time for the host to launch a kernel, while the device runs earlier ones.
  double launch_seconds = 0.0;

  // Packing speed of work that packs its operands before it computes, as products do on a CPU;
  // otherwise 0.
  std::array<double, kNumDeviceWorks> packed_bytes_per_s = {};

  // Returns the maximum of arithmetic and memory time; or their sum, if operands are packed.
  double seconds_of(const Cost& cost) const;
};

struct KernelCost {
  int64_t num_calls = 0;
  Cost total;
  // Seconds by the recorder's rates.
  double seconds = 0.0;
};

// Rates of work that packs its operands: the speeds of arithmetic and packing that explain the
// measured times of two problem sizes. If noise prevents this, the rate of the second size without
// packing.
struct PackedRates {
  double flops_per_s = 0.0;
  double bytes_per_s = 0.0;

  static PackedRates through(const KernelCost& small, const KernelCost& large);
};

// Collects the costs of the kernels called on this thread during its lifetime; nested recorders:
// the innermost receives them.
class CostRecorder {
 public:
  // Without rates all times are zero.
  explicit CostRecorder(const Rates* rates = nullptr);
  ~CostRecorder();
  CostRecorder(const CostRecorder&) = delete;
  CostRecorder& operator=(const CostRecorder&) = delete;

  const std::map<std::string, KernelCost, std::less<>>& by_kernel() const { return by_kernel_; }
  // Returns the sum over all kernels, without copies.
  KernelCost total() const;

 private:
  friend void report_cost(std::string_view kernel, const Cost& cost);

  const Rates* rates_;
  CostRecorder* outer_;
  std::map<std::string, KernelCost, std::less<>> by_kernel_;
};

void report_cost(std::string_view kernel, const Cost& cost);

}  // namespace sotto::kernels
