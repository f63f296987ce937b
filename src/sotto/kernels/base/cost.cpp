#include "sotto/kernels/base/cost.h"

#include <algorithm>

namespace sotto::kernels {

namespace {

thread_local CostRecorder* recorder_now = nullptr;

}  // namespace

double Rates::seconds_of(const Cost& cost) const {
  if (is_copy(cost.work)) return cost.bytes / link_bytes_per_s;
  const double arithmetic = cost.flops / flops_per_s[static_cast<size_t>(cost.work)];
  const double packed = packed_bytes_per_s[static_cast<size_t>(cost.work)];
  return (packed > 0.0 ? arithmetic + cost.bytes / packed
                       : std::max(arithmetic, cost.bytes / bytes_per_s)) +
         seconds_per_call[static_cast<size_t>(cost.work)];
}

PackedRates PackedRates::through(const KernelCost& small, const KernelCost& large) {
  const Cost &a = small.total, &b = large.total;
  const double determinant = a.flops * b.bytes - b.flops * a.bytes;
  const double of_flops = (small.seconds * b.bytes - large.seconds * a.bytes) / determinant;
  const double of_bytes = (a.flops * large.seconds - b.flops * small.seconds) / determinant;
  if (!(of_flops > 0.0 && of_bytes > 0.0)) return {.flops_per_s = b.flops / large.seconds};
  return {.flops_per_s = 1.0 / of_flops, .bytes_per_s = 1.0 / of_bytes};
}

CostRecorder::CostRecorder(const Rates* rates) : rates_(rates), outer_(recorder_now) {
  recorder_now = this;
}

CostRecorder::~CostRecorder() {
  recorder_now = outer_;
}

namespace {

void add(KernelCost& sum, const KernelCost& cost) {
  sum.num_calls += cost.num_calls;
  sum.total.flops += cost.total.flops;
  sum.total.bytes += cost.total.bytes;
  sum.seconds += cost.seconds;
}

}  // namespace

KernelCost CostRecorder::total() const {
  KernelCost sum;
  for (const auto& [kernel, cost] : by_kernel_)
    if (!is_copy(cost.total.work)) add(sum, cost);
  return sum;
}

void report_cost(std::string_view kernel, const Cost& cost) {
  if (recorder_now == nullptr) return;
  auto entry = recorder_now->by_kernel_.find(kernel);
  if (entry == recorder_now->by_kernel_.end()) {
    const KernelCost none{.total = {.work = cost.work, .frequency = cost.frequency}};
    entry = recorder_now->by_kernel_.emplace(std::string(kernel), none).first;
  }
  const Rates* rates = recorder_now->rates_;
  add(entry->second,
      {.num_calls = 1, .total = cost, .seconds = rates == nullptr ? 0.0 : rates->seconds_of(cost)});
}

}  // namespace sotto::kernels
