#include "sotto/kernels/base/cuda_array.h"
#include "sotto/kernels/cuda/cuda_launch.cuh"
#include "sotto/kernels/cuda/cuda_vector.cuh"

namespace sotto::kernels::detail {

namespace {

template <bool kAdds, int kVector, class From, class To>
__global__ void cast_kernel(const From* x, To* y, int64_t n) {
  for_each_vector<kVector>(n, [&](int64_t at, auto size) {
    constexpr int kSize = decltype(size)::value;
    const auto from = load<kSize>(x + at);
    Vector<To, kSize> to;
    if constexpr (kAdds) to = load<kSize>(y + at);
    for (int i = 0; i < kSize; ++i) to.set(i, kAdds ? to[i] + from[i] : from[i]);
    store(y + at, to);
  });
}

template <bool kAdds>
void cast(const CudaArray& x, const CudaArray& y, void* stream) {
  with_cuda_type(x.type, [&](auto from_zero) {
    with_cuda_type(y.type, [&](auto to_zero) {
      using From = decltype(from_zero);
      using To = decltype(to_zero);
      with_vector_size(fits_vectors(kVectorSize, {x.data, y.data}), [&](auto size) {
        constexpr int kVector = decltype(size)::value;
        const LaunchShape shape = launch_shape(x.num_elements() / kVector + 1);
        cast_kernel<kAdds, kVector>
            <<<shape.blocks, shape.threads, 0, static_cast<cudaStream_t>(stream)>>>(
                data_of<const From>(x), data_of<To>(y), x.num_elements());
      });
    });
  });
  check_launch("cast");
}

}  // namespace

void cast_cuda(const CudaArray& x, const CudaArray& y, void* stream) {
  cast<false>(x, y, stream);
}

void cast_add_cuda(const CudaArray& x, const CudaArray& sum, void* stream) {
  cast<true>(x, sum, stream);
}

}  // namespace sotto::kernels::detail
