// Cards by name: what they have, for runs that pretend to have one and for plans made without it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "sotto/device/target.h"

namespace sotto::device {

// As the maker publishes them, without sparsity: 1e12 operations and 1e9 bytes a second. Of 16-bit
// products those that sum in fp32; of the link, one direction of the bus that the card has.
struct PublishedRates {
  double fp32_tera;
  double tf32_tera;  // 0: none
  double half_tera;
  double memory_giga;
  double link_giga;
};

struct KnownDevice {
  std::string_view name;
  std::string_view title;
  // On the box, and what a process can take on an idle card.
  int64_t nominal_gb;
  double usable_gib;
  int capability;
  int64_t num_sms;
  PublishedRates rates;
  // Whether usable memory, capability and multiprocessors were read off such a card.
  bool is_measured = false;

  // What the driver and its libraries take of it, as allowed for in plans without the card: 712 MiB
  // were measured on an H200 with every kernel loaded, and it has the most to load.
  static constexpr int64_t kLibraryAllowance = int64_t{768} << 20;

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
