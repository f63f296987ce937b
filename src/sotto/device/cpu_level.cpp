#include "sotto/device/cpu_level.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "sotto/core/error.h"

namespace sotto::device {

namespace {

// Features beyond x86-64-v2 that the compiler uses; every CPU that has these has the rest of v3.
constexpr std::array<std::string_view, 4> kX86V3 = {"avx2", "fma", "f16c", "bmi2"};

}  // namespace

void check_cpu_level(std::string_view cpu_level, const std::vector<std::string>& features) {
  if (cpu_level != "x86-64-v3" || features.empty()) return;
  std::vector<std::string_view> missing;
  for (const std::string_view feature : kX86V3) {
    if (std::find(features.begin(), features.end(), feature) == features.end())
      missing.push_back(feature);
  }
  if (missing.empty()) return;
  throw ConfigError(
      {.attempted = "checking the CPU",
       .found = fmt::format("it lacks {}", fmt::join(missing, ", ")),
       .expected = fmt::format("{} (x86-64-v3: Intel Haswell, AMD Excavator or later)",
                               fmt::join(kX86V3, ", ")),
       .hint = "In a virtual machine, expose the host's CPU features."});
}

}  // namespace sotto::device
