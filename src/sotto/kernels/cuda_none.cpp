// Stands in for all x_cuda.cu where CUDA is not built: nothing here can be reached but by a tensor
// on a GPU, which such a build cannot make.
#include <string_view>

#include "sotto/core/error.h"
#include "sotto/kernels/attention_task.h"
#include "sotto/kernels/cuda_array.h"

namespace sotto::kernels::detail {

namespace {

[[noreturn]] void throw_cuda_not_built(std::string_view kernel) {
  throw ConfigError({.attempted = fmt::format("running {} on a GPU", kernel),
                     .found = "this build of sotto has no CUDA kernels",
                     .expected = "a build with SOTTO_CUDA=ON",
                     .hint = "Configure with -DSOTTO_CUDA=ON, or use --device cpu."});
}

}  // namespace

void activation_forward_cuda(ActivationKind /*kind*/, const CudaArray& /*x*/,
                             const CudaArray& /*y*/, void* /*stream*/) {
  throw_cuda_not_built("an activation");
}

void activation_backward_cuda(ActivationKind /*kind*/, const CudaArray& /*dy*/,
                              const CudaArray& /*x*/, void* /*stream*/) {
  throw_cuda_not_built("an activation");
}

void attention_forward_cuda(const CudaAttentionTask& /*task*/, void* /*stream*/) {
  throw_cuda_not_built("Attention");
}

void attention_backward_cuda(const CudaAttentionTask& /*task*/,
                             const CudaAttentionGradients& /*gradients*/, void* /*stream*/) {
  throw_cuda_not_built("Attention");
}

}  // namespace sotto::kernels::detail
