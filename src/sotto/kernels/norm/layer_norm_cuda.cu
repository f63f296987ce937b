#include "sotto/kernels/norm/row_norm.cuh"

namespace sotto::kernels::detail {

void layer_norm_forward_cuda(const RowNormForward& in, void* stream) {
  row_norm_forward<RowNorm::kLayer>(in, stream);
}

void layer_norm_backward_cuda(const RowNormBackward& in, void* stream) {
  row_norm_backward<RowNorm::kLayer>(in, stream);
}

}  // namespace sotto::kernels::detail
