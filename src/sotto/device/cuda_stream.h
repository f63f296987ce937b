// The CUDA stream that LibTorch's operations run on, as an opaque pointer; kernels of ours are
// launched on the same.
#pragma once

namespace sotto::device {

// Throws ConfigError where CUDA is not built.
void* current_cuda_stream();

}  // namespace sotto::device
