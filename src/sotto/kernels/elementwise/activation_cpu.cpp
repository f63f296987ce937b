#include "sotto/kernels/base/element_type.h"
#include "sotto/kernels/elementwise/activation.h"
#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/simd_math.h"

namespace sotto::kernels::detail {

namespace {

using simd::Lanes;

// For each kind: the value, and the derivative at x.
struct GeluMath {
  [[gnu::always_inline]] static Lanes value(const Lanes& x) {
    return x * simd::normal_distribution(x).cumulative;
  }
  [[gnu::always_inline]] static Lanes derivative(const Lanes& x) {
    const simd::NormalDistribution normal = simd::normal_distribution(x);
    return normal.cumulative + x * normal.density;
  }
};

struct ReluMath {
  // Propagates NaN, which must reach the loss.
  [[gnu::always_inline]] static Lanes value(const Lanes& x) {
    return select<float>(x <= 0.0f, 0.0f, x);
  }
  [[gnu::always_inline]] static Lanes derivative(const Lanes& x) {
    return select<float>(x <= 0.0f, 0.0f, 1.0f);
  }
};

struct SiluMath {
  [[gnu::always_inline]] static Lanes value(const Lanes& x) { return x * simd::sigmoid(x); }
  [[gnu::always_inline]] static Lanes derivative(const Lanes& x) {
    const Lanes s = simd::sigmoid(x);
    return s + x * s * (1.0f - s);
  }
};

template <class Body>
void with_math(ActivationKind kind, Body body) {
  switch (kind) {
    case ActivationKind::kGelu: return body(GeluMath{});
    case ActivationKind::kRelu: return body(ReluMath{});
    case ActivationKind::kSilu: return body(SiluMath{});
  }
}

// Gelu costs about as much per element as moving sixteen elements: this factor is used when work is
// distributed.
constexpr int64_t kWorkPerElement = 4;

}  // namespace

void activation_forward_cpu(ActivationKind kind, const at::Tensor& x, const at::Tensor& y) {
  with_math(kind, [&](auto math) {
    with_element_type(x, [&](auto zero) {
      using T = decltype(zero);
      const T* from = x.const_data_ptr<T>();
      T* to = y.mutable_data_ptr<T>();
      parallel_rows(x.numel(), kWorkPerElement, [&](int64_t begin, int64_t end) {
        simd::for_each_block(end - begin, [&](int64_t i, auto n) {
          simd::store(to + begin + i, math.value(simd::load(from + begin + i, n)), n);
        });
      });
    });
  });
}

void activation_backward_cpu(ActivationKind kind, const at::Tensor& dy, const at::Tensor& x) {
  with_math(kind, [&](auto math) {
    with_element_type(x, [&](auto zero) {
      using T = decltype(zero);
      const T* from = x.const_data_ptr<T>();
      T* gradient = dy.mutable_data_ptr<T>();
      parallel_rows(x.numel(), kWorkPerElement, [&](int64_t begin, int64_t end) {
        simd::for_each_block(end - begin, [&](int64_t i, auto n) {
          const int64_t at = begin + i;
          const Lanes dx = simd::load(gradient + at, n) * math.derivative(simd::load(from + at, n));
          simd::store(gradient + at, dx, n);
        });
      });
    });
  });
}

}  // namespace sotto::kernels::detail
