#include "sotto/kernels/cuda/cuda_pack.cuh"

namespace sotto::kernels::detail {

namespace {

// The normal distribution function by formula 7.1.26 of Abramowitz and Stegun, with an error of at
// most 7.5e-8: one exponential, which the derivative needs too, and one division. erfcf would take
// longer than the memory access.
struct GeluMath {
  struct Normal {
    float density;   // unnormalised: exp(-x^2 / 2)
    float integral;  // from minus infinity to x
  };
  static __device__ Normal normal(float x) {
    const float z = 0.70710678118654752f * fabsf(x);
    const float t = __fdividef(1.0f, 1.0f + 0.3275911f * z);
    const float density = __expf(-z * z);
    const float polynomial =
        t * (0.254829592f +
             t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    const float tail = 0.5f * polynomial * density;
    return {.density = density, .integral = x < 0.0f ? tail : 1.0f - tail};
  }
  static __device__ float value(float x) { return x * normal(x).integral; }
  static __device__ float derivative(float x) {
    const Normal at = normal(x);
    return at.integral + x * 0.39894228040143268f * at.density;
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

template <class Math, class T, int kSize>
__global__ void forward_kernel(const T* x, T* y, int64_t n) {
  for_each_vector<kSize>(n, [&](int64_t at, auto size) {
    Vector<T, size> values = load<size>(x + at);
    for (int i = 0; i < size; ++i) values.set(i, Math::value(values[i]));
    store(y + at, values);
  });
}

template <class Math, class T, int kSize>
__global__ void backward_kernel(T* dy, const T* x, int64_t n) {
  for_each_vector<kSize>(n, [&](int64_t at, auto size) {
    Vector<T, size> gradient = load<size>(dy + at);
    const Vector<T, size> input = load<size>(x + at);
    for (int i = 0; i < size; ++i) gradient.set(i, gradient[i] * Math::derivative(input[i]));
    store(dy + at, gradient);
  });
}

template <class Math, class T, int kSize>
__global__ void forward_dropped_kernel(const T* x, T* y, int64_t width, CudaDropout dropout) {
  for_each_dropped<kSize>(dropout, width, [&](int64_t at, const DropoutFactors<kSize>& factors) {
    Vector<T, kSize> values = load<kSize>(x + at);
    for (int i = 0; i < kSize; ++i) values.set(i, Math::value(values[i]) * factors.at[i]);
    store(y + at, values);
  });
}

template <class Math, class T, int kSize>
__global__ void backward_dropped_kernel(T* dy, const T* x, int64_t width, CudaDropout dropout) {
  for_each_dropped<kSize>(dropout, width, [&](int64_t at, const DropoutFactors<kSize>& factors) {
    Vector<T, kSize> gradient = load<kSize>(dy + at);
    const Vector<T, kSize> input = load<kSize>(x + at);
    for (int i = 0; i < kSize; ++i)
      gradient.set(i, gradient[i] * factors.at[i] * Math::derivative(input[i]));
    store(dy + at, gradient);
  });
}

template <class Body>
void with_math(ActivationKind kind, Body body) {
  switch (kind) {
    case ActivationKind::kGelu: return body(GeluMath{});
    case ActivationKind::kRelu: return body(ReluMath{});
    case ActivationKind::kSilu: return body(SiluMath{});
  }
}

// Calls body(math, zero, size): with the activation, a value of the type, and the elements per
// access.
template <class Body>
void with_choices(ActivationKind kind, ElementType type, bool fits, Body body) {
  with_math(kind, [&](auto math) {
    with_cuda_type(type, [&](auto zero) {
      with_vector_size(fits, [&](auto size) { body(math, zero, size); });
    });
  });
}

}  // namespace

void activation_forward_cuda(ActivationKind kind, const CudaArray& x, const CudaArray& y,
                             void* stream) {
  const int64_t n = x.num_elements();
  // Elements at the end that do not fill a vector are processed one by one.
  const bool fits = fits_vectors(kVectorSize, {x.data, y.data});
  with_choices(kind, x.type, fits, [&](auto math, auto zero, auto size) {
    using T = decltype(zero);
    const LaunchShape shape = launch_shape(n / size + 1);
    forward_kernel<decltype(math), T, size>
        <<<shape.blocks, shape.threads, 0, static_cast<cudaStream_t>(stream)>>>(data_of<T>(x),
                                                                                data_of<T>(y), n);
  });
  check_launch("activation forward");
}

void activation_backward_cuda(ActivationKind kind, const CudaArray& dy, const CudaArray& x,
                              void* stream) {
  const int64_t n = x.num_elements();
  const bool fits = fits_vectors(kVectorSize, {dy.data, x.data});
  with_choices(kind, x.type, fits, [&](auto math, auto zero, auto size) {
    using T = decltype(zero);
    const LaunchShape shape = launch_shape(n / size + 1);
    backward_kernel<decltype(math), T, size>
        <<<shape.blocks, shape.threads, 0, static_cast<cudaStream_t>(stream)>>>(data_of<T>(dy),
                                                                                data_of<T>(x), n);
  });
  check_launch("activation backward");
}

void activation_forward_dropped_cuda(ActivationKind kind, const CudaArray& x, const CudaArray& y,
                                     const CudaDropout& dropout, void* stream) {
  const bool fits = fits_vectors(x.width, {x.data, y.data});
  with_choices(kind, x.type, fits, [&](auto math, auto zero, auto size) {
    using T = decltype(zero);
    const RowGrid grid = row_grid(x.rows, (x.width + size - 1) / size);
    forward_dropped_kernel<decltype(math), T, size>
        <<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(
            data_of<T>(x), data_of<T>(y), x.width, dropout);
  });
  check_launch("activation forward with dropout");
}

void activation_backward_dropped_cuda(ActivationKind kind, const CudaArray& dy, const CudaArray& x,
                                      const CudaDropout& dropout, void* stream) {
  const bool fits = fits_vectors(x.width, {dy.data, x.data});
  with_choices(kind, x.type, fits, [&](auto math, auto zero, auto size) {
    using T = decltype(zero);
    const RowGrid grid = row_grid(x.rows, (x.width + size - 1) / size);
    backward_dropped_kernel<decltype(math), T, size>
        <<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(
            data_of<T>(dy), data_of<T>(x), x.width, dropout);
  });
  check_launch("activation backward with dropout");
}

}  // namespace sotto::kernels::detail
