#include "sotto/train/run/monitor.h"

#include <fmt/format.h>

#include <limits>
#include <optional>
#include <utility>

#include "sotto/core/units.h"

namespace sotto::train {

Monitor::Monitor(device::MemoryReading read_device, int64_t planned_bytes)
    : read_device_(std::move(read_device)),
      planned_bytes_(planned_bytes),
      next_reading_s_(std::numeric_limits<double>::lowest()) {}

Monitor::Findings Monitor::check(const Step& step) {
  Findings findings;
  compare_with_plan(step, findings);
  if (step.time_s >= next_reading_s_) {
    next_reading_s_ = step.time_s + kSecondsBetweenReadings;
    look_at_device(findings);
  }
  return findings;
}

void Monitor::compare_with_plan(const Step& step, Findings& findings) {
  const double share = static_cast<double>(step.peak_bytes) / static_cast<double>(planned_bytes_);
  const bool is_above = share > 1.0 + kPlanTolerance;
  if (is_above && !is_above_plan_) {
    findings.warnings.push_back(fmt::format(
        "step {} took {} of memory, {:.1f} % more than the planned {}", step.step,
        format_bytes(step.peak_bytes), 100.0 * (share - 1.0), format_bytes(planned_bytes_)));
  }
  is_above_plan_ = is_above;
}

void Monitor::look_at_device(Findings& findings) {
  const std::optional<device::MemoryAvailable> memory = read_device_();
  if (!memory || memory->total_bytes <= 0) return;
  const int64_t used = memory->total_bytes - memory->free_bytes;
  const double share = static_cast<double>(used) / static_cast<double>(memory->total_bytes);
  const bool is_nearly_full = share >= kWarnShare;
  const bool is_full = share >= kReleaseShare;
  const std::string found =
      fmt::format("all processes together use {} of the device's {} ({:.0f} %)", format_bytes(used),
                  format_bytes(memory->total_bytes), 100.0 * share);
  if (is_full && !is_full_) {
    findings.should_release = true;
    findings.warnings.push_back(found + "; releasing caches");
  } else if (is_nearly_full && !is_nearly_full_) {
    findings.warnings.push_back(found);
  }
  is_nearly_full_ = is_nearly_full;
  is_full_ = is_full;
}

}  // namespace sotto::train
