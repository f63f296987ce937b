// Monitors a run: compares the memory of each step with the plan, and watches the device's total
// memory use by all processes. Takes numbers, returns warnings and actions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sotto/device/run_device.h"

namespace sotto::train {

class Monitor {
 public:
  // Fraction of the planned bytes by which a step may exceed the plan without a warning.
  static constexpr double kPlanTolerance = 0.01;
  // Fractions of the device's memory, used by all processes, above which a warning is issued and
  // caches are released.
  static constexpr double kWarnShare = 0.90;
  static constexpr double kReleaseShare = 0.95;
  // Minimum interval between device readings, so that short steps are not slowed down.
  static constexpr double kSecondsBetweenReadings = 1.0;

  // `planned_bytes`: the planned maximum of a step.
  Monitor(device::MemoryReading read_device, int64_t planned_bytes);

  struct Findings {
    std::vector<std::string> warnings;
    // Memory use has reached kReleaseShare.
    bool should_release = false;
  };

  struct Step {
    int64_t step = 0;
    int64_t peak_bytes = 0;
    // Time of a monotonic clock.
    double time_s = 0.0;
  };

  // Called after each step. Each finding is reported once, and again only after it was resolved in
  // between.
  Findings check(const Step& step);

 private:
  void compare_with_plan(const Step& step, Findings& findings);
  void look_at_device(Findings& findings);

  device::MemoryReading read_device_;
  int64_t planned_bytes_;
  double next_reading_s_;
  // State at the last reading.
  bool is_above_plan_ = false;
  bool is_nearly_full_ = false;
  bool is_full_ = false;
};

}  // namespace sotto::train
