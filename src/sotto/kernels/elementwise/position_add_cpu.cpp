#include <cmath>

#include "sotto/kernels/elementwise/position_add.h"
#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/simd.h"

namespace sotto::kernels::detail {

namespace {

// Calls body(row, position in its utterance) for every row of a pack, on all cores.
template <class Body>
void for_each_position(const Packing& packing, int64_t width, Body body) {
  parallel_rows(packing.num_frames(), width, [&](int64_t begin, int64_t end) {
    int64_t u = packing.utterance_of(begin);
    for (int64_t row = begin; row < end; ++row) {
      while (row >= packing.starts()[static_cast<size_t>(u) + 1]) ++u;
      body(row, row - packing.starts()[static_cast<size_t>(u)]);
    }
  });
}

// to [count] += from [count]
template <class To, class From>
void add_row(To* to, const From* from, int64_t count) {
  simd::for_each_block(count, [&](int64_t i, auto n) {
    simd::store(to + i, simd::load(to + i, n) + simd::load(from + i, n), n);
  });
}

// Calls body(i, value) for the sine or cosine of every column i.
template <class Body>
void for_each_sinusoid(int64_t position, int64_t width, Body body) {
  // Ratio of the frequencies of consecutive pairs of values: 10,000^(-2 / D).
  const double ratio = std::pow(10'000.0, -2.0 / static_cast<double>(width));
  double frequency = 1.0;
  for (int64_t i = 0; i < width; i += 2, frequency *= ratio) {
    const double angle = static_cast<double>(position) * frequency;
    body(i, static_cast<float>(std::sin(angle)));
    body(i + 1, static_cast<float>(std::cos(angle)));
  }
}

}  // namespace

void position_add_cpu(const at::Tensor& x, const at::Tensor& table, const Packing& packing,
                      int64_t first) {
  const int64_t width = x.size(1);
  with_element_type(x, [&](auto zero) {
    using T = decltype(zero);
    T* to = x.mutable_data_ptr<T>();
    const T* from = table.const_data_ptr<T>();
    for_each_position(packing, width, [&](int64_t row, int64_t index) {
      add_row(to + row * width, from + (first + index) * width, width);
    });
  });
}

void position_add_backward_cpu(const at::Tensor& dy, const Packing& packing,
                               const at::Tensor& grad_table) {
  const int64_t width = dy.size(1);
  float* to = grad_table.mutable_data_ptr<float>();
  with_element_type(dy, [&](auto zero) {
    using T = decltype(zero);
    const T* from = dy.const_data_ptr<T>();
    // Cores share the positions, not the utterances: the order of additions is fixed.
    parallel_rows(
        packing.max_length(), width * packing.num_utterances(), [&](int64_t begin, int64_t end) {
          for (size_t u = 0; u < packing.lengths().size(); ++u) {
            const int64_t last = std::min(end, packing.lengths()[u]);
            for (int64_t index = begin; index < last; ++index) {
              add_row(to + index * width, from + (packing.starts()[u] + index) * width, width);
            }
          }
        });
  });
}

void sinusoid_add_cpu(const at::Tensor& x, const Packing& packing, int64_t first) {
  const int64_t width = x.size(1);
  with_element_type(x, [&](auto zero) {
    using T = decltype(zero);
    T* to = x.mutable_data_ptr<T>();
    for_each_position(packing, 16 * width, [&](int64_t row, int64_t index) {
      T* cell = to + row * width;
      for_each_sinusoid(first + index, width, [&](int64_t i, float value) {
        cell[i] = static_cast<T>(static_cast<float>(cell[i]) + value);
      });
    });
  });
}

void relative_sinusoids_cpu(const at::Tensor& table) {
  const int64_t width = table.size(1);
  const int64_t farthest = table.size(0) / 2;
  with_element_type(table, [&](auto zero) {
    using T = decltype(zero);
    T* to = table.mutable_data_ptr<T>();
    parallel_rows(table.size(0), 16 * width, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        for_each_sinusoid(farthest - row, width, [&](int64_t i, float value) {
          to[row * width + i] = static_cast<T>(value);
        });
      }
    });
  });
}

}  // namespace sotto::kernels::detail
