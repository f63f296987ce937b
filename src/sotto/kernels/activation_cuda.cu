#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "sotto/kernels/cuda_array.h"
#include "sotto/kernels/cuda_launch.cuh"

namespace sotto::kernels::detail {

namespace {

struct GeluMath {
  static __device__ float cumulative(float x) { return 0.5f * erfcf(-0.70710678118654752f * x); }
  static __device__ float value(float x) { return x * cumulative(x); }
  static __device__ float derivative(float x) {
    return cumulative(x) + x * 0.39894228040143268f * __expf(-0.5f * x * x);
  }
};

struct ReluMath {
  static __device__ float value(float x) { return x <= 0.0f ? 0.0f : x; }
  static __device__ float derivative(float x) { return x <= 0.0f ? 0.0f : 1.0f; }
};

struct SiluMath {
  static __device__ float value(float x) { return x / (1.0f + __expf(-x)); }
  static __device__ float derivative(float x) {
    const float s = 1.0f / (1.0f + __expf(-x));
    return s + x * s * (1.0f - s);
  }
};

// Sixteen bytes a thread and turn: the widest load a thread has.
template <class T>
struct alignas(16) Vector {
  static constexpr int kSize = 16 / sizeof(T);
  T values[kSize];
};

template <class Math, class T>
__global__ void forward_kernel(const T* x, T* y, int64_t n) {
  constexpr int kSize = Vector<T>::kSize;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t num_vectors = n / kSize;
  for (int64_t v = first; v < num_vectors; v += stride) {
    Vector<T> vector = reinterpret_cast<const Vector<T>*>(x)[v];
    for (int i = 0; i < kSize; ++i) {
      vector.values[i] = static_cast<T>(Math::value(static_cast<float>(vector.values[i])));
    }
    reinterpret_cast<Vector<T>*>(y)[v] = vector;
  }
  for (int64_t i = num_vectors * kSize + first; i < n; i += stride) {
    y[i] = static_cast<T>(Math::value(static_cast<float>(x[i])));
  }
}

template <class Math, class T>
__global__ void backward_kernel(T* dy, const T* x, int64_t n) {
  constexpr int kSize = Vector<T>::kSize;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t num_vectors = n / kSize;
  for (int64_t v = first; v < num_vectors; v += stride) {
    Vector<T> gradient = reinterpret_cast<Vector<T>*>(dy)[v];
    const Vector<T> input = reinterpret_cast<const Vector<T>*>(x)[v];
    for (int i = 0; i < kSize; ++i) {
      const float derivative = Math::derivative(static_cast<float>(input.values[i]));
      gradient.values[i] = static_cast<T>(static_cast<float>(gradient.values[i]) * derivative);
    }
    reinterpret_cast<Vector<T>*>(dy)[v] = gradient;
  }
  for (int64_t i = num_vectors * kSize + first; i < n; i += stride) {
    dy[i] = static_cast<T>(static_cast<float>(dy[i]) * Math::derivative(static_cast<float>(x[i])));
  }
}

template <class Body>
void with_math(ActivationKind kind, Body body) {
  switch (kind) {
    case ActivationKind::kGelu: return body(GeluMath{});
    case ActivationKind::kRelu: return body(ReluMath{});
    case ActivationKind::kSilu: return body(SiluMath{});
  }
}

}  // namespace

void activation_forward_cuda(ActivationKind kind, const CudaArray& x, const CudaArray& y,
                             void* stream) {
  with_math(kind, [&](auto math) {
    with_cuda_type(x.type, [&](auto zero) {
      using Math = decltype(math);
      using T = decltype(zero);
      const LaunchShape shape = launch_shape(x.num_elements() / Vector<T>::kSize + 1);
      forward_kernel<Math, T>
          <<<shape.blocks, shape.threads, 0, static_cast<cudaStream_t>(stream)>>>(
              static_cast<const T*>(x.data), static_cast<T*>(y.data), x.num_elements());
    });
  });
  check_launch("activation forward");
}

void activation_backward_cuda(ActivationKind kind, const CudaArray& dy, const CudaArray& x,
                              void* stream) {
  with_math(kind, [&](auto math) {
    with_cuda_type(x.type, [&](auto zero) {
      using Math = decltype(math);
      using T = decltype(zero);
      const LaunchShape shape = launch_shape(x.num_elements() / Vector<T>::kSize + 1);
      backward_kernel<Math, T>
          <<<shape.blocks, shape.threads, 0, static_cast<cudaStream_t>(stream)>>>(
              static_cast<T*>(dy.data), static_cast<const T*>(x.data), x.num_elements());
    });
  });
  check_launch("activation backward");
}

}  // namespace sotto::kernels::detail
