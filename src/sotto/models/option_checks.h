// Checks of settings that several networks share.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/kernels/attention/attention.h"

namespace sotto::models {

[[noreturn]] inline void refuse_settings(std::string found, std::string expected) {
  throw ConfigError({.attempted = "checking the model's settings",
                     .found = std::move(found),
                     .expected = std::move(expected)});
}

inline void check_heads(int64_t width, int64_t heads) {
  if (width % heads != 0)
    refuse_settings(fmt::format("a width of {} with {} heads", width, heads),
                    "a number of heads that divides the width");
  if (width / heads > kernels::Attention::kMaxHeadSize)
    refuse_settings(fmt::format("heads of {} values", width / heads),
                    fmt::format("at most {}", kernels::Attention::kMaxHeadSize));
}

}  // namespace sotto::models
