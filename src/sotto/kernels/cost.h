// What kernels cost. Every kernel reports its arithmetic and the bytes it must move; the sum over a
// step is the time model. Reports go to the recorder in force on this thread, if any.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace sotto::kernels {

struct Cost {
  double flops = 0.0;
  double bytes = 0.0;  // read and written, each operand once
};

struct KernelCost {
  int64_t num_calls = 0;
  Cost total;
};

// Collects the costs of the kernels called on this thread while it lives; the innermost recorder
// gets them.
class CostRecorder {
 public:
  CostRecorder();
  ~CostRecorder();
  CostRecorder(const CostRecorder&) = delete;
  CostRecorder& operator=(const CostRecorder&) = delete;

  const std::map<std::string, KernelCost, std::less<>>& by_kernel() const { return by_kernel_; }
  Cost total() const;

 private:
  friend void report_cost(std::string_view kernel, const Cost& cost);

  CostRecorder* outer_;
  std::map<std::string, KernelCost, std::less<>> by_kernel_;
};

void report_cost(std::string_view kernel, const Cost& cost);

}  // namespace sotto::kernels
