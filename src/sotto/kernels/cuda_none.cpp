// Stands in for all x_cuda.cu where CUDA is not built: nothing here can be reached but by a tensor
// on a GPU, which such a build cannot make.
#include <span>
#include <string_view>

#include "sotto/core/error.h"
#include "sotto/kernels/adamw_factors.h"
#include "sotto/kernels/ctc_lattice.h"
#include "sotto/kernels/cuda_array.h"
#include "sotto/kernels/log_mel_windows.h"

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

void adamw_cuda(const CudaAdamWRange& /*range*/, const AdamWFactors& /*factors*/,
                const double* /*square_sum*/, void* /*stream*/) {
  throw_cuda_not_built("AdamW");
}

void cast_cuda(const CudaArray& /*x*/, const CudaArray& /*y*/, void* /*stream*/) {
  throw_cuda_not_built("Cast");
}

void ctc_cuda(const CudaCtc& /*problem*/, void* /*stream*/) {
  throw_cuda_not_built("Ctc");
}

void ctc_greedy_cuda(const CudaArray& /*logits*/, int64_t /*blank*/, int32_t* /*best*/,
                     void* /*stream*/) {
  throw_cuda_not_built("CtcGreedy");
}

void log_mel_gather_cuda(const CudaLogMelFrames& /*frames*/, int64_t /*first*/,
                         const CudaArray& /*rows*/, void* /*stream*/) {
  throw_cuda_not_built("LogMel");
}

void log_mel_square_cuda(const CudaArray& /*spectrum*/, void* /*stream*/) {
  throw_cuda_not_built("LogMel");
}

void log_mel_logarithm_cuda(const CudaArray& /*features*/, void* /*stream*/) {
  throw_cuda_not_built("LogMel");
}

void square_sum_cuda(const CudaArray& /*values*/, std::span<double> /*partial*/, double* /*total*/,
                     void* /*stream*/) {
  throw_cuda_not_built("SquareSum");
}

}  // namespace sotto::kernels::detail
