// What ATen's product allocates inside on aarch64, LibTorch 2.11. All types go to oneDNN with Arm's
// Compute Library: copies of operands in its own layout; for 16-bit types an fp32 accumulator and
// buffers for each thread too. kernel_memory_test measures both against these bounds.
#include <ATen/Parallel.h>

#include "sotto/kernels/gemm.h"

namespace sotto::kernels {

int64_t Gemm::library_bytes(int64_t m, int64_t n, int64_t k, at::ScalarType type) {
  const int64_t bytes_a_thread = type == at::kHalf ? 1024 * 1024 : 256 * 1024;
  const int64_t buffers = bytes_a_thread * at::get_num_threads();
  if (type == at::kFloat) return 4 * (m * k + k * n) + buffers;
  return 2 * (m * k + k * n) + 4 * m * n + buffers;
}

}  // namespace sotto::kernels
