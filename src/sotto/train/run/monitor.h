// Watches a run: what a step took against what was planned, and how full the device is by all
// processes. Numbers come in, what is to be said and done goes out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sotto/device/run_device.h"

namespace sotto::train {

class Monitor {
 public:
  // Of what was planned: what a step may take beyond it in silence.
  static constexpr double kPlanTolerance = 0.01;
  // Of the device's memory, used by all processes: from here on it is said, and what can be given
  // back is given back.
  static constexpr double kWarnShare = 0.90;
  static constexpr double kReleaseShare = 0.95;
  // The device is asked so often at most, so that short steps do not pay for it.
  static constexpr double kSecondsBetweenReadings = 1.0;

  // `planned_bytes`: the most that a step was planned to take.
  Monitor(device::MemoryReading read_device, int64_t planned_bytes);

  struct Findings {
    std::vector<std::string> warnings;
    // Use has reached kReleaseShare.
    bool should_release = false;
  };

  struct Step {
    int64_t step = 0;
    int64_t peak_bytes = 0;
    // Of a clock that only goes forward.
    double time_s = 0.0;
  };

  // After a step. What is found is said once, and again only after it was not so in between.
  Findings check(const Step& step);

 private:
  void compare_with_plan(const Step& step, Findings& findings);
  void look_at_device(Findings& findings);

  device::MemoryReading read_device_;
  int64_t planned_bytes_;
  double next_reading_s_;
  // As the last look found it.
  bool is_above_plan_ = false;
  bool is_nearly_full_ = false;
  bool is_full_ = false;
};

}  // namespace sotto::train
