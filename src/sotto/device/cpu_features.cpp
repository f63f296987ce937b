#include "sotto/device/cpu_features.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "sotto/core/error.h"
#include "sotto/device/host_info.h"

namespace sotto::device {

namespace {

constexpr const char* kMaskVariable = "SOTTO_MASK_CPU";

void hide(CpuFeatures& features, std::string_view name) {
  if (name == "bf16") {
    features.bf16 = false;
  } else if (name == "avx512") {
    features.avx512 = false;
  } else {
    throw ConfigError({.attempted = fmt::format("reading {}", kMaskVariable),
                       .found = fmt::format("'{}'", name),
                       .expected = "bf16, avx512 or both, separated by a comma"});
  }
}

}  // namespace

CpuFeatures find_cpu_features(const std::vector<std::string>& flags, std::string_view mask) {
  const auto has = [&](std::string_view flag) {
    return std::ranges::find(flags, flag) != flags.end();
  };
  CpuFeatures features{.bf16 = has("bf16") || has("avx512_bf16") || has("amx_bf16"),
                       .avx512 = has("avx512f")};
  while (!mask.empty()) {
    const size_t comma = std::min(mask.find(','), mask.size());
    hide(features, mask.substr(0, comma));
    mask.remove_prefix(std::min(comma + 1, mask.size()));
  }
  return features;
}

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = [] {
    const char* mask = std::getenv(kMaskVariable);
    return find_cpu_features(read_cpu_features(), mask == nullptr ? "" : mask);
  }();
  return features;
}

}  // namespace sotto::device
