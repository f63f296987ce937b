#include "sotto/core/error.h"
#include "sotto/device/cuda_stream.h"

namespace sotto::device {

void* current_cuda_stream() {
  throw ConfigError({.attempted = "using a GPU",
                     .found = "this build of sotto has no CUDA",
                     .expected = "a build with SOTTO_CUDA=ON",
                     .hint = "Configure with -DSOTTO_CUDA=ON, or use --device cpu."});
}

}  // namespace sotto::device
