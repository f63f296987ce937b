#include <cmath>

#include "sotto/kernels/norm/weight_norm.h"
#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/simd.h"

namespace sotto::kernels::detail {

namespace {

// sums [slabs, K]: sums of a[row, k] b[row, k] over the rows of a slab.
template <class A, class B>
void sum_products(const A* a, const B* b, int64_t num_rows, const at::Tensor& space) {
  const int64_t taps = space.size(1);
  float* sums = space.mutable_data_ptr<float>();
  parallel_slabs(num_rows, [&](int64_t slab, int64_t begin, int64_t end) {
    float* to = sums + slab * taps;
    std::fill_n(to, taps, 0.0f);
    for (int64_t row = begin; row < end; ++row) {
      simd::for_each_block(taps, [&](int64_t i, auto n) {
        const simd::Lanes product =
            simd::load(a + row * taps + i, n) * simd::load(b + row * taps + i, n);
        simd::store(to + i, simd::load(to + i, n) + product, n);
      });
    }
  });
}

// Returns the total of one tap over the slabs, in order.
double total_of(const at::Tensor& space, int64_t num_slabs, int64_t tap) {
  const float* sums = space.const_data_ptr<float>();
  double total = 0.0;
  for (int64_t slab = 0; slab < num_slabs; ++slab) total += sums[slab * space.size(1) + tap];
  return total;
}

}  // namespace

void weight_norm_forward_cpu(const at::Tensor& v, const at::Tensor& g,
                             const WeightNorm::Result& result, const at::Tensor& space) {
  const int64_t taps = v.size(1);
  const int64_t slabs = num_row_slabs(v.size(0));
  float* factor = space.mutable_data_ptr<float>() + slabs * taps;
  with_element_type(v, [&](auto v_zero) {
    using V = decltype(v_zero);
    const V* from = v.const_data_ptr<V>();
    sum_products(from, from, v.size(0), space);
    for (int64_t tap = 0; tap < taps; ++tap) {
      const double norm = std::sqrt(total_of(space, slabs, tap));
      result.norm.mutable_data_ptr<float>()[tap] = static_cast<float>(norm);
      factor[tap] = static_cast<float>(g.const_data_ptr<float>()[tap] / norm);
    }
    with_element_type(result.w, [&](auto w_zero) {
      using W = decltype(w_zero);
      W* to = result.w.mutable_data_ptr<W>();
      parallel_rows(v.size(0), taps, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          simd::for_each_block(taps, [&](int64_t i, auto n) {
            const int64_t at = row * taps + i;
            simd::store(to + at, simd::load(from + at, n) * simd::load(factor + i, n), n);
          });
        }
      });
    });
  });
}

void weight_norm_backward_cpu(const WeightNorm::BackwardInputs& in, const at::Tensor& space,
                              const WeightNorm::Gradients& gradients) {
  const int64_t taps = in.v.size(1);
  const int64_t slabs = num_row_slabs(in.v.size(0));
  const float* dw = in.dw.const_data_ptr<float>();
  float* dw_factor = space.mutable_data_ptr<float>() + slabs * taps;
  float* v_factor = dw_factor + taps;
  float* grad_v = gradients.v.mutable_data_ptr<float>();
  with_element_type(in.v, [&](auto zero) {
    using V = decltype(zero);
    const V* v = in.v.const_data_ptr<V>();
    sum_products(dw, v, in.v.size(0), space);
    for (int64_t tap = 0; tap < taps; ++tap) {
      const double norm = in.norm.const_data_ptr<float>()[tap];
      const double along = total_of(space, slabs, tap) / norm;  // dw in the direction of v
      const double scale = in.g.const_data_ptr<float>()[tap] / norm;
      gradients.g.mutable_data_ptr<float>()[tap] += static_cast<float>(along);
      dw_factor[tap] = static_cast<float>(scale);
      v_factor[tap] = static_cast<float>(scale * along / norm);
    }
    parallel_rows(in.v.size(0), taps, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        simd::for_each_block(taps, [&](int64_t i, auto n) {
          const int64_t at = row * taps + i;
          const simd::Lanes of_dw = simd::load(dw + at, n) * simd::load(dw_factor + i, n);
          const simd::Lanes of_v = simd::load(v + at, n) * simd::load(v_factor + i, n);
          simd::store(grad_v + at, simd::load(grad_v + at, n) + (of_dw - of_v), n);
        });
      }
    });
  });
}

}  // namespace sotto::kernels::detail
