#include "sotto/kernels/cost.h"

namespace sotto::kernels {

namespace {

thread_local CostRecorder* recorder_now = nullptr;

}  // namespace

CostRecorder::CostRecorder() : outer_(recorder_now) {
  recorder_now = this;
}

CostRecorder::~CostRecorder() {
  recorder_now = outer_;
}

Cost CostRecorder::total() const {
  Cost sum;
  for (const auto& [kernel, cost] : by_kernel_) {
    sum.flops += cost.total.flops;
    sum.bytes += cost.total.bytes;
  }
  return sum;
}

void report_cost(std::string_view kernel, const Cost& cost) {
  if (recorder_now == nullptr) return;
  auto entry = recorder_now->by_kernel_.find(kernel);
  if (entry == recorder_now->by_kernel_.end()) {
    entry = recorder_now->by_kernel_.emplace(std::string(kernel), KernelCost{}).first;
  }
  ++entry->second.num_calls;
  entry->second.total.flops += cost.flops;
  entry->second.total.bytes += cost.bytes;
}

}  // namespace sotto::kernels
