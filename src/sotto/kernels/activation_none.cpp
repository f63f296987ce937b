// Stands in for activation_cuda.cu where CUDA is not built.
#include "sotto/kernels/cuda_array.h"
#include "sotto/kernels/cuda_none.h"

namespace sotto::kernels::detail {

void activation_forward_cuda(ActivationKind /*kind*/, const CudaArray& /*x*/,
                             const CudaArray& /*y*/, void* /*stream*/) {
  throw_cuda_not_built("an activation");
}

void activation_backward_cuda(ActivationKind /*kind*/, const CudaArray& /*dy*/,
                              const CudaArray& /*x*/, void* /*stream*/) {
  throw_cuda_not_built("an activation");
}

}  // namespace sotto::kernels::detail
