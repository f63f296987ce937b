// What ATen's product allocates inside on x86_64, LibTorch 2.11. fp32 goes to MKL, which takes
// nothing from LibTorch's allocator. 16-bit types go to oneDNN: copies of operands, an fp32
// accumulator, and buffers for each thread. kernel_memory_test measures both against these bounds.
#include <ATen/Parallel.h>

#include "sotto/kernels/gemm.h"

namespace sotto::kernels {

int64_t Gemm::library_bytes(int64_t m, int64_t n, int64_t k, at::ScalarType type) {
  if (type == at::kFloat) return 0;
  // Measured with 2 and 16 threads: bf16 takes up to 40 KiB a thread beside the copies, fp16 up to
  // 800.
  const int64_t bytes_a_thread = type == at::kHalf ? 1024 * 1024 : 256 * 1024;
  return 2 * (m * k + k * n) + 4 * m * n + bytes_a_thread * at::get_num_threads();
}

}  // namespace sotto::kernels
