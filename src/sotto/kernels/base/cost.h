// What kernels cost. Every kernel reports its arithmetic and the bytes it must move; with the rates
// of a device they are seconds, and the sum over a step is the time model. Reports go to the
// recorder in force on this thread, if any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace sotto::kernels {

// What does the work, as far as its speed is another: products of matrices and attention in fp32
// and in 16 bits, all else on the device, and the link between it and the host, which works beside
// it.
enum class Work { kElementwise, kProduct32, kProduct16, kAttention32, kAttention16, kLink };
inline constexpr size_t kNumWorks = 6;

struct Cost {
  double flops = 0.0;
  double bytes = 0.0;  // read and written, each operand once
  Work work = Work::kElementwise;
};

// How fast a device is.
struct Rates {
  // Operations a second, by what does them; of the link none.
  std::array<double, kNumWorks> flops_per_s = {};
  // Of the device's memory, and of the link in one direction.
  double bytes_per_s = 0.0;
  double link_bytes_per_s = 0.0;
  // What a call takes besides, however small it is: filling the device, and the pause behind it.
  std::array<double, kNumWorks> seconds_per_call = {};
  // For the host to put a kernel on its way, while the device does those before it.
  double launch_seconds = 0.0;

  // Of work that packs its operands first and then computes, as products do on a CPU; else 0.
  std::array<double, kNumWorks> packed_bytes_per_s = {};

  // Arithmetic or memory, whichever takes longer; or both, where operands are packed.
  double seconds_of(const Cost& cost) const;
};

struct KernelCost {
  int64_t num_calls = 0;
  Cost total;
  // By the recorder's rates.
  double seconds = 0.0;
};

// Of work that packs its operands: the speeds of arithmetic and packing with which two amounts of
// it take what they took. Without packing, by the second amount alone, where noise denies both.
struct PackedRates {
  double flops_per_s = 0.0;
  double bytes_per_s = 0.0;

  static PackedRates through(const KernelCost& small, const KernelCost& large);
};

// Collects the costs of the kernels called on this thread while it lives; the innermost recorder
// gets them.
class CostRecorder {
 public:
  // Without rates nothing takes time.
  explicit CostRecorder(const Rates* rates = nullptr);
  ~CostRecorder();
  CostRecorder(const CostRecorder&) = delete;
  CostRecorder& operator=(const CostRecorder&) = delete;

  const std::map<std::string, KernelCost, std::less<>>& by_kernel() const { return by_kernel_; }
  // Of all kernels; the link apart.
  KernelCost total() const;
  KernelCost link() const;

 private:
  friend void report_cost(std::string_view kernel, const Cost& cost);

  const Rates* rates_;
  CostRecorder* outer_;
  std::map<std::string, KernelCost, std::less<>> by_kernel_;
};

void report_cost(std::string_view kernel, const Cost& cost);

}  // namespace sotto::kernels
