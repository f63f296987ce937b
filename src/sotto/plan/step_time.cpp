#include "sotto/plan/step_time.h"

#include <algorithm>

namespace sotto::plan {

namespace {

// What comes once in a step, however many micro-batches it has.
bool is_of_update(std::string_view kernel) {
  return kernel == "adamw" || kernel == "square_sum" || kernel.starts_with("state.");
}

// Of what the device computes in a micro-batch, forward is about a quarter where blocks are
// computed again, which is where the link carries their inputs: out in forward, back in backward.
constexpr double kForwardShare = 0.25;

struct Part {
  double device_s = 0.0;
  double to_host_s = 0.0;
  double to_device_s = 0.0;
  int64_t num_calls = 0;

  void add(std::string_view kernel, const kernels::KernelCost& cost) {
    if (cost.total.work != kernels::Work::kLink) {
      device_s += cost.seconds;
      num_calls += cost.num_calls;
    } else if (kernel.ends_with("to_host")) {
      to_host_s += cost.seconds;
    } else {
      to_device_s += cost.seconds;
    }
  }
};

}  // namespace

StepTime time_of(const kernels::CostRecorder& recorded, const kernels::Rates& rates,
                 double num_alike) {
  Part batch, update;
  StepTime time;
  for (const auto& [kernel, cost] : recorded.by_kernel()) {
    const bool once = is_of_update(kernel);
    (once ? update : batch).add(kernel, cost);
    time.by_kernel_s[kernel] = cost.seconds * (once ? 1.0 : num_alike);
  }
  const double forward_s = kForwardShare * batch.device_s;
  const double for_link_s = std::max(0.0, batch.to_host_s - forward_s) +
                            std::max(0.0, batch.to_device_s - (batch.device_s - forward_s));
  const double launching_s = static_cast<double>(batch.num_calls) * rates.launch_seconds;
  const double batch_s = std::max(batch.device_s + for_link_s, launching_s);
  time.batches_s = num_alike * batch_s;
  // Both directions at once, beside the update itself.
  time.update_s = std::max({update.device_s, update.to_host_s, update.to_device_s});
  time.waiting_s = num_alike * (batch_s - batch.device_s) + (time.update_s - update.device_s);
  return time;
}

}  // namespace sotto::plan
