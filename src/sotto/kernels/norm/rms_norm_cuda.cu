#include "sotto/kernels/norm/row_norm.cuh"

namespace sotto::kernels::detail {

void rms_norm_forward_cuda(const RowNormForward& in, void* stream) {
  row_norm_forward<RowNorm::kRms>(in, stream);
}

void rms_norm_backward_cuda(const RowNormBackward& in, void* stream) {
  row_norm_backward<RowNorm::kRms>(in, stream);
}

}  // namespace sotto::kernels::detail
