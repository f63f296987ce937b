#include <c10/cuda/CUDAStream.h>

#include "sotto/device/cuda_stream.h"

namespace sotto::device {

void* current_cuda_stream() {
  return c10::cuda::getCurrentCUDAStream().stream();
}

}  // namespace sotto::device
