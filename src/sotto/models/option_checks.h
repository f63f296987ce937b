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
                     .expected = std::move(expected),
                     .hint = "Change the setting under model: or with --set model.KEY=VALUE."});
}

inline void check_heads(int64_t width, int64_t heads) {
  if (width % heads != 0)
    refuse_settings(fmt::format("a width of {} with {} heads", width, heads),
                    "a number of heads that divides the width");
  if (width / heads > kernels::Attention::kMaxHeadSize)
    refuse_settings(fmt::format("heads of {} values", width / heads),
                    fmt::format("at most {}", kernels::Attention::kMaxHeadSize));
}

// Checks the settings of a Conformer block.
inline void check_conformer_block(int64_t width, int64_t heads, int64_t kernel) {
  check_heads(width, heads);
  if (width % 2 != 0)
    refuse_settings(fmt::format("relative positions with a width of {}", width), "an even width");
  if (kernel % 2 == 0)
    refuse_settings(fmt::format("a kernel of {} frames", kernel),
                    "an odd number, so that a frame sees as much on either side");
}

// Checks the factor of subsampling by 2-D convolutions.
inline void check_subsampling_factor(int64_t factor) {
  if (factor != 2 && factor != 4 && factor != 8)
    refuse_settings(fmt::format("a subsampling_factor of {}", factor), "2, 4 or 8");
}

}  // namespace sotto::models
