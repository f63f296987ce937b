// Table of known GPUs by name, for runs that simulate one and for plans made without it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "sotto/device/target.h"

namespace sotto::device {

// Rates published by the manufacturer, without sparsity: 1e12 operations per second and 1e9 bytes
// per second. 16-bit products are those with fp32 accumulation; the link rate is one direction of
// the card's bus.
struct PublishedRates {
  double fp32_tera;
  double tf32_tera;  // 0: not supported
  double half_tera;
  double memory_giga;
  double link_giga;
};

struct KnownDevice {
  std::string_view name;
  std::string_view title;
  // Advertised memory, and the memory that a process can use on an idle card.
  int64_t nominal_gb;
  double usable_gib;
  int capability;
  int64_t num_sms;
  PublishedRates rates;
  // Whether usable memory, capability and multiprocessors were read from such a card.
  bool is_measured = false;

  // Memory taken by the driver and its libraries, as assumed in plans without the card: 712 MiB
  // were measured on an H200 with every kernel loaded, which has the most to load.
  static constexpr int64_t kLibraryAllowance = int64_t{768} << 20;

  int64_t usable_bytes() const {
    return static_cast<int64_t>(usable_gib * static_cast<double>(int64_t{1} << 30));
  }
  Target target() const {
    return {.processor = Processor::kCuda, .capability = capability, .num_sms = num_sms};
  }
};

std::span<const KnownDevice> known_devices();

// Looks up a device. Throws ConfigError, which lists the names and suggests the nearest one.
const KnownDevice& find_device(std::string_view name);

}  // namespace sotto::device
