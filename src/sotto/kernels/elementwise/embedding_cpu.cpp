#include <cstring>

#include "sotto/kernels/elementwise/embedding.h"
#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/simd.h"

namespace sotto::kernels::detail {

namespace {

int64_t checked(int32_t id, int64_t num_entries) {
  SOTTO_ASSERT(id >= 0 && id < num_entries, "token {} of a table of {}", id, num_entries);
  return id;
}

template <class G, class T>
void scatter(G* gradient, const T* dy, const at::Tensor& ids, const at::Tensor& table) {
  const int64_t width = table.size(1);
  const int32_t* id = ids.const_data_ptr<int32_t>();
  // Cores share the columns, not the tokens: no two write the same element, and the order of
  // additions is fixed.
  constexpr int64_t kColumns = 64;
  const int64_t num_strips = (width + kColumns - 1) / kColumns;
  at::parallel_for(0, num_strips, 1, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kColumns;
    const int64_t count = std::min(width, end * kColumns) - first;
    for (int64_t token = 0; token < ids.size(0); ++token) {
      G* to = gradient + checked(id[token], table.size(0)) * width + first;
      const T* from = dy + token * width + first;
      simd::for_each_block(count, [&](int64_t i, auto n) {
        simd::store(to + i, simd::load(to + i, n) + simd::load(from + i, n), n);
      });
    }
  });
}

}  // namespace

void embedding_forward_cpu(const at::Tensor& ids, const at::Tensor& table, const at::Tensor& y) {
  const int64_t row_bytes = table.size(1) * static_cast<int64_t>(table.itemsize());
  const auto* from = static_cast<const std::byte*>(table.const_data_ptr());
  auto* to = static_cast<std::byte*>(y.mutable_data_ptr());
  const int32_t* id = ids.const_data_ptr<int32_t>();
  parallel_rows(ids.size(0), table.size(1), [&](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) {
      std::memcpy(to + token * row_bytes, from + checked(id[token], table.size(0)) * row_bytes,
                  static_cast<size_t>(row_bytes));
    }
  });
}

void embedding_backward_cpu(const at::Tensor& dy, const at::Tensor& ids,
                            const at::Tensor& grad_table) {
  with_element_type(dy, [&](auto zero) {
    using T = decltype(zero);
    if (grad_table.scalar_type() == at::kFloat) {
      scatter(grad_table.mutable_data_ptr<float>(), dy.const_data_ptr<T>(), ids, grad_table);
    } else {
      scatter(grad_table.mutable_data_ptr<T>(), dy.const_data_ptr<T>(), ids, grad_table);
    }
  });
}

}  // namespace sotto::kernels::detail
