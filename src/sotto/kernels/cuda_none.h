// What every x_none.cpp throws.
#pragma once

#include <string_view>

#include "sotto/core/error.h"

namespace sotto::kernels {

[[noreturn]] inline void throw_cuda_not_built(std::string_view kernel) {
  throw ConfigError({.attempted = fmt::format("running {} on a GPU", kernel),
                     .found = "this build of sotto has no CUDA kernels",
                     .expected = "a build with SOTTO_CUDA=ON",
                     .hint = "Configure with -DSOTTO_CUDA=ON, or use --device cpu."});
}

}  // namespace sotto::kernels
