#include "sotto/kernels/elementwise/frame_mask.h"
#include "sotto/kernels/simd/cpu_kernel.h"

namespace sotto::kernels::detail {

void fill_rows_cpu(const at::Tensor& x, const at::Tensor& rows, const at::Tensor& value) {
  const int64_t width = x.size(1);
  const int32_t* indices = rows.const_data_ptr<int32_t>();
  const float* values = value.defined() ? value.const_data_ptr<float>() : nullptr;
  with_element_type(x, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t r = 0; r < rows.numel(); ++r) {
      T* row = x.mutable_data_ptr<T>() + indices[r] * width;
      for (int64_t i = 0; i < width; ++i)
        row[i] = values == nullptr ? T(0.0f) : static_cast<T>(values[i]);
    }
  });
}

void sum_rows_cpu(const at::Tensor& dy, const at::Tensor& rows, const at::Tensor& partial,
                  const at::Tensor& sum) {
  const int64_t width = dy.size(1);
  const int64_t slabs = partial.size(0);
  const int32_t* indices = rows.const_data_ptr<int32_t>();
  float* sums = partial.mutable_data_ptr<float>();
  with_element_type(dy, [&](auto zero) {
    using T = decltype(zero);
    at::parallel_for(0, slabs, 1, [&](int64_t begin, int64_t end) {
      std::fill(sums + begin * width, sums + end * width, 0.0f);
      for (int64_t slab = begin; slab < end; ++slab) {
        const int64_t last = rows.numel() * (slab + 1) / slabs;
        for (int64_t r = rows.numel() * slab / slabs; r < last; ++r) {
          const T* row = dy.const_data_ptr<T>() + indices[r] * width;
          for (int64_t i = 0; i < width; ++i) sums[slab * width + i] += static_cast<float>(row[i]);
        }
      }
    });
  });
  add_slabs(sums, {sum.mutable_data_ptr<float>()}, slabs, width);
}

void zero_columns_cpu(const at::Tensor& x, const Packing& packing, const at::Tensor& hidden) {
  const int64_t width = x.size(1);
  with_element_type(x, [&](auto zero) {
    using T = decltype(zero);
    parallel_rows(x.size(0), width, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const uint8_t* is_hidden =
            hidden.const_data_ptr<uint8_t>() + packing.utterance_of(row) * width;
        T* values = x.mutable_data_ptr<T>() + row * width;
        for (int64_t i = 0; i < width; ++i) {
          if (is_hidden[i] != 0) values[i] = T(0.0f);
        }
      }
    });
  });
}

}  // namespace sotto::kernels::detail
