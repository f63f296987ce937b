#include "sotto/device/device_table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/nearest.h"

namespace sotto::device {

namespace {

// Multiprocessors and capabilities are NVIDIA's; usable memory is what an idle card of the kind
// reports as free.
constexpr std::array kDevices = {
    KnownDevice{"t4", "Tesla T4, 16 GB", 14.7, 75, 40},
    KnownDevice{"rtx3060", "GeForce RTX 3060, 12 GB", 11.6, 86, 28},
    KnownDevice{"rtx3090", "GeForce RTX 3090, 24 GB", 23.4, 86, 82},
    KnownDevice{"rtx4090", "GeForce RTX 4090, 24 GB", 23.4, 89, 128},
    KnownDevice{"rtx5090", "GeForce RTX 5090, 32 GB", 31.2, 120, 170},
    KnownDevice{"a10g", "A10G, 24 GB", 21.9, 86, 80},
    KnownDevice{"l4", "L4, 24 GB", 21.9, 89, 58},
    KnownDevice{"l40s", "L40S, 48 GB", 44.2, 89, 142},
    KnownDevice{"a100-40", "A100, 40 GB", 39.1, 80, 108},
    KnownDevice{"a100-80", "A100, 80 GB", 78.9, 80, 108},
    KnownDevice{"h100-80", "H100, 80 GB", 78.9, 90, 132},
    KnownDevice{"h200", "H200, 141 GB", 139.5, 90, 132},
};

}  // namespace

std::span<const KnownDevice> known_devices() {
  return kDevices;
}

const KnownDevice& find_device(std::string_view name) {
  const auto found = std::find_if(kDevices.begin(), kDevices.end(),
                                  [&](const KnownDevice& device) { return device.name == name; });
  if (found != kDevices.end()) return *found;
  std::vector<std::string> names;
  for (const KnownDevice& device : kDevices) names.emplace_back(device.name);
  const std::optional<std::string> meant = nearest(name, names);
  throw ConfigError({.attempted = "looking up a device",
                     .found = fmt::format("'{}'", name),
                     .expected = fmt::format("one of {}", fmt::join(names, ", ")),
                     .hint = meant ? fmt::format("Did you mean '{}'?", *meant) : ""});
}

}  // namespace sotto::device
