#include "sotto/device/device_table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/nearest.h"

namespace sotto::device {

namespace {

// Multiprocessors, capabilities and rates are from NVIDIA's data sheets and architecture papers;
// usable memory is what an idle card of this type reports as free.
constexpr std::array kDevices = {
    KnownDevice{"t4", "Tesla T4, 16 GB", 16, 14.7, 75, 40, {8.1, 0.0, 65.0, 320.0, 15.8}},
    KnownDevice{
        "rtx3060", "GeForce RTX 3060, 12 GB", 12, 11.6, 86, 28, {12.7, 12.7, 25.5, 360.0, 31.5}},
    KnownDevice{
        "rtx3070", "GeForce RTX 3070, 8 GB", 8, 7.6, 86, 46, {20.3, 20.3, 40.6, 448.0, 31.5}},
    KnownDevice{
        "rtx3090", "GeForce RTX 3090, 24 GB", 24, 23.4, 86, 82, {35.6, 35.6, 71.0, 936.0, 31.5}},
    KnownDevice{"rtx4060ti",
                "GeForce RTX 4060 Ti, 16 GB",
                16,
                15.5,
                89,
                34,
                {22.1, 22.1, 44.1, 288.0, 15.8}},
    KnownDevice{
        "rtx4070", "GeForce RTX 4070, 12 GB", 12, 11.6, 89, 46, {29.1, 29.1, 58.3, 504.0, 31.5}},
    KnownDevice{
        "rtx4090", "GeForce RTX 4090, 24 GB", 24, 23.4, 89, 128, {82.6, 82.6, 165.2, 1008.0, 31.5}},
    KnownDevice{"rtx5090",
                "GeForce RTX 5090, 32 GB",
                32,
                31.2,
                120,
                170,
                {104.8, 104.8, 209.5, 1792.0, 63.0}},
    KnownDevice{"a10", "A10, 24 GB", 24, 21.9, 86, 72, {31.2, 62.5, 125.0, 600.0, 31.5}},
    KnownDevice{"a10g", "A10G, 24 GB", 24, 21.9, 86, 80, {35.0, 35.0, 70.0, 600.0, 31.5}},
    KnownDevice{"l4", "L4, 24 GB", 24, 21.9, 89, 58, {30.3, 60.0, 121.0, 300.0, 31.5}},
    KnownDevice{"l40s", "L40S, 48 GB", 48, 44.2, 89, 142, {91.6, 183.0, 362.0, 864.0, 31.5}},
    KnownDevice{"a100-40", "A100, 40 GB", 40, 39.1, 80, 108, {19.5, 156.0, 312.0, 1555.0, 31.5}},
    KnownDevice{"a100-80", "A100, 80 GB", 80, 78.9, 80, 108, {19.5, 156.0, 312.0, 2039.0, 31.5}},
    KnownDevice{"h100-80", "H100, 80 GB", 80, 78.9, 90, 132, {67.0, 494.0, 989.0, 3350.0, 63.0}},
    KnownDevice{"h200",
                "H200, 141 GB",
                141,
                139.5,
                90,
                132,
                {67.0, 494.0, 989.0, 4800.0, 63.0},
                /*is_measured=*/true},
};

std::string digits_of(std::string_view name) {
  std::string digits;
  std::ranges::copy_if(name, std::back_inserter(digits),
                       [](char c) { return c >= '0' && c <= '9'; });
  return digits;
}

// A different number is a different card, however similar the name: gtx1080 is not a typo of
// rtx3060. A number may be typed partly: h100 for h100-80.
bool may_be_mistyped(std::string_view typed, std::string_view known) {
  return digits_of(known).starts_with(digits_of(typed));
}

}  // namespace

std::span<const KnownDevice> known_devices() {
  return kDevices;
}

const KnownDevice& find_device(std::string_view name) {
  const auto found = std::find_if(kDevices.begin(), kDevices.end(),
                                  [&](const KnownDevice& device) { return device.name == name; });
  if (found != kDevices.end()) return *found;
  std::vector<std::string> names;
  std::vector<std::string> similar;
  for (const KnownDevice& device : kDevices) {
    names.emplace_back(device.name);
    if (may_be_mistyped(name, device.name)) similar.emplace_back(device.name);
  }
  const std::optional<std::string> meant = nearest(name, similar);
  throw ConfigError({.attempted = "looking up a device",
                     .found = fmt::format("'{}'", name),
                     .expected = fmt::format("one of {}", fmt::join(names, ", ")),
                     .hint = meant ? fmt::format("Did you mean '{}'?", *meant)
                                   : "For a card that is not listed, plan on its machine with "
                                     "--device cuda."});
}

}  // namespace sotto::device
