// Internal allocations of oneDNN on x86_64, LibTorch 2.11: copies of operands, an fp32 accumulator,
// and buffers for each thread. kernel_memory_test measures against this bound. fp32 is computed by
// MKL, which does not use LibTorch's allocator.
#include <ATen/Parallel.h>

#include "sotto/kernels/product/gemm_operands.h"

namespace sotto::kernels {

int64_t Gemm::library_bytes(int64_t m, int64_t n, int64_t k, at::ScalarType type) {
  if (type == at::kFloat) return 0;
  // Measured with 2 and 16 threads: bf16 takes up to 40 KiB per thread in addition to the copies.
  constexpr int64_t kBytesPerThread = 256 * 1024;
  return 2 * (m * k + k * n) + 4 * m * n + kBytesPerThread * at::get_num_threads();
}

bool detail::has_float_onednn(bool) {
  return false;
}

}  // namespace sotto::kernels
