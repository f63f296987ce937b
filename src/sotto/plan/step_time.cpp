#include "sotto/plan/step_time.h"

#include <algorithm>
#include <functional>

namespace sotto::plan {

namespace {

// Fraction of a micro-batch's compute time that forward takes where blocks are recomputed, which is
// where the link transfers their inputs: out in forward, back in backward.
constexpr double kForwardShare = 0.25;

// Times of one micro-batch, or of the update.
struct Part {
  // Device time: work that grows with the frames, and overhead per call.
  double working_s = 0.0;
  double calling_s = 0.0;
  double to_host_s = 0.0;
  double to_device_s = 0.0;
  int64_t num_calls = 0;

  void add(const kernels::KernelCost& cost, const kernels::Rates& rates) {
    if (is_copy(cost.total.work)) {
      (cost.total.work == kernels::Work::kCopyToHost ? to_host_s : to_device_s) += cost.seconds;
      return;
    }
    const double calls_s = static_cast<double>(cost.num_calls) *
                           rates.seconds_per_call[static_cast<size_t>(cost.total.work)];
    calling_s += calls_s;
    working_s += cost.seconds - calls_s;
    num_calls += cost.num_calls;
  }
};

// "layer norm, backward" for layer_norm.backward.
std::string kernel_title(const std::string& kernel) {
  std::string title;
  for (const char letter : kernel) {
    if (letter == '.') {
      title += ", ";
    } else {
      title += letter == '_' ? ' ' : letter;
    }
  }
  return title;
}

}  // namespace

std::vector<TimePart> parts_of(const StepTime& time, size_t num_kernels) {
  std::vector<TimePart> parts;
  for (const auto& [kernel, seconds] : time.by_kernel_s)
    parts.push_back({.name = kernel_title(kernel), .seconds = seconds});
  std::ranges::stable_sort(parts, std::greater<>(), &TimePart::seconds);
  TimePart others{.name = "other kernels"};
  while (parts.size() > num_kernels) {
    others.seconds += parts.back().seconds;
    parts.pop_back();
  }
  parts.push_back(others);
  if (time.waiting_s > 0.0)
    parts.push_back({.name = "waiting for the host", .seconds = time.waiting_s});
  return parts;
}

StepTime time_of(const kernels::CostRecorder& recorded, const kernels::Rates& rates,
                 const BatchCount& count) {
  Part batch, update;
  StepTime time;
  for (const auto& [kernel, cost] : recorded.by_kernel()) {
    const bool is_per_step = cost.total.frequency == kernels::Frequency::kStep;
    (is_per_step ? update : batch).add(cost, rates);
    time.by_kernel_s[kernel] = cost.seconds * (is_per_step ? 1.0 : count.alike);
  }
  const auto num_batches = static_cast<double>(count.all);
  const double device_s = count.alike * batch.working_s + num_batches * batch.calling_s;
  const double forward_s = kForwardShare * device_s;
  const double for_link_s = std::max(0.0, count.alike * batch.to_host_s - forward_s) +
                            std::max(0.0, count.alike * batch.to_device_s - (device_s - forward_s));
  time.launching_s = num_batches * static_cast<double>(batch.num_calls) * rates.launch_seconds;
  time.batches_s = std::max(device_s + for_link_s, time.launching_s);
  // Both directions overlap with each other and with the update.
  const double update_s = update.working_s + update.calling_s;
  time.update_s = std::max({update_s, update.to_host_s, update.to_device_s});
  time.waiting_s = (time.batches_s - device_s) + (time.update_s - update_s);
  return time;
}

}  // namespace sotto::plan
