// Cards by name: what they have, for runs that pretend to have one and for plans made without it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "sotto/device/target.h"

namespace sotto::device {

struct KnownDevice {
  std::string_view name;
  std::string_view title;
  // What a process can take on an idle card: less than the size on the box.
  double usable_gib;
  int capability;
  int64_t num_sms;

  int64_t usable_bytes() const {
    return static_cast<int64_t>(usable_gib * static_cast<double>(int64_t{1} << 30));
  }
  Target target() const {
    return {.processor = Processor::kCuda, .capability = capability, .num_sms = num_sms};
  }
};

std::span<const KnownDevice> known_devices();

// Throws ConfigError that lists the names, and the nearest one.
const KnownDevice& find_device(std::string_view name);

}  // namespace sotto::device
