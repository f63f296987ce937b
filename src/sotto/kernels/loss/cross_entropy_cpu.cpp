#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "sotto/kernels/base/packing.h"
#include "sotto/kernels/loss/cross_entropy_task.h"
#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/row_largest.h"
#include "sotto/kernels/simd/simd_math.h"

namespace sotto::kernels::detail {

namespace {

using simd::Lanes;

// The probability of the logit x is exp(x - largest) / total.
struct RowSums {
  float largest = -std::numeric_limits<float>::infinity();
  double total = 0.0;   // sum of exp(x - largest); NaN if a logit is not finite
  double logits = 0.0;  // sum of the logits

  // Adds a slice: its maximum is computed from memory, its sums from the L1 cache.
  template <class T>
  void add(const T* x, int64_t width, bool with_logits) {
    const float before = largest;
    largest = std::max(largest, largest_of(x, width));
    const float sum = simd::sum_of_blocks(width, [&](int64_t i, auto n) {
      const Lanes now = simd::load(x + i, n);
      // x - x is 0, or NaN if x is not finite: minus infinity is a failure too, not a probability
      // of 0.
      return simd::masked(simd::exp_of_negative(now - largest), n) + (now - now);
    });
    total = total * std::exp(static_cast<double>(before) - largest) + sum;
    if (!with_logits) return;
    logits += simd::sum_of_blocks(width, [&](int64_t i, auto n) { return simd::load(x + i, n); });
  }
};

// One row of a chunk: its parts in the slices of the vocabulary, all of the same width except the
// last.
template <class T>
class Row {
 public:
  Row(std::span<const at::Tensor> slices, int64_t row) : slices_(slices), row_(row) {}

  // Calls body(first, width) for each part.
  template <class Body>
  void for_each_part(Body body) const {
    for (const at::Tensor& slice : slices_) {
      const int64_t width = slice.size(1);
      body(static_cast<T*>(slice.data_ptr()) + row_ * width, width);
    }
  }

  T& at(int64_t entry) const {
    const int64_t width = slices_[0].size(1);
    const at::Tensor& slice = slices_[static_cast<size_t>(entry / width)];
    return static_cast<T*>(slice.data_ptr())[row_ * slice.size(1) + entry % width];
  }

 private:
  std::span<const at::Tensor> slices_;
  int64_t row_;
};

// Replaces the logits by the gradient, weight * (probability - target).
template <class T>
void write_gradient(const Row<T>& row, const RowSums& sums, const CrossEntropyRow& of,
                    const CrossEntropyTask& task) {
  const float scale = static_cast<float>(of.weight / sums.total);
  const float even =
      static_cast<float>(of.weight * task.smoothing / static_cast<double>(task.vocabulary));
  const float own = static_cast<float>(of.weight * (1.0 - task.smoothing));
  const float of_target = std::exp(static_cast<float>(row.at(of.target)) - sums.largest);
  row.for_each_part([&](T* x, int64_t width) {
    simd::for_each_block(width, [&](int64_t i, auto n) {
      const Lanes power = simd::exp_of_negative(simd::load(x + i, n) - sums.largest);
      simd::store(x + i, power * scale - even, n);
    });
  });
  row.at(of.target) = static_cast<T>((of_target * scale - even) - own);
}

template <class T>
float finish_row(const Row<T>& row, const CrossEntropyRow& of, const CrossEntropyTask& task) {
  const bool is_smooth = task.smoothing > 0.0;
  RowSums sums;
  row.for_each_part([&](const T* x, int64_t width) { sums.add(x, width, is_smooth); });
  const double target = static_cast<float>(row.at(of.target));
  double loss = std::log(sums.total) - (1.0 - task.smoothing) * (target - sums.largest);
  if (is_smooth) {
    const double mean = sums.logits / static_cast<double>(task.vocabulary);
    loss -= task.smoothing * (mean - sums.largest);
  }
  if (task.with_gradient) write_gradient(row, sums, of, task);
  return static_cast<float>(loss);
}

}  // namespace

void cross_entropy_gather_cpu(const at::Tensor& x, const CrossEntropyRow* rows,
                              const at::Tensor& to) {
  const int64_t row_bytes = x.size(1) * static_cast<int64_t>(x.itemsize());
  const auto* from = static_cast<const std::byte*>(x.const_data_ptr());
  auto* out = static_cast<std::byte*>(to.mutable_data_ptr());
  parallel_rows(to.size(0), x.size(1), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      std::memcpy(out + row * row_bytes, from + rows[row].index * row_bytes,
                  static_cast<size_t>(row_bytes));
    }
  });
}

void cross_entropy_rows_cpu(std::span<const at::Tensor> logits, const CrossEntropyTask& task) {
  with_element_type(logits[0], [&](auto zero) {
    using T = decltype(zero);
    parallel_rows(task.num_rows, task.vocabulary, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const CrossEntropyRow& of = task.rows[row];
        task.losses[of.index] = finish_row(Row<T>(logits, row), of, task);
      }
    });
  });
}

void cross_entropy_scatter_cpu(const at::Tensor& from, const CrossEntropyRow* rows,
                               const at::Tensor& dx) {
  const int64_t width = dx.size(1);
  const float* in = from.const_data_ptr<float>();
  with_element_type(dx, [&](auto zero) {
    using T = decltype(zero);
    T* out = dx.mutable_data_ptr<T>();
    parallel_rows(from.size(0), width, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* to = out + rows[row].index * width;
        simd::for_each_block(width, [&](int64_t i, auto n) {
          simd::store(to + i, simd::load(in + row * width + i, n), n);
        });
      }
    });
  });
}

// Sums in double, row by row: far less work than the losses of the rows.
void cross_entropy_sum_cpu(const at::Tensor& row_losses, const Packing& packing,
                           const at::Tensor& loss) {
  const float* of_row = row_losses.const_data_ptr<float>();
  float* of_utterance = loss.mutable_data_ptr<float>();
  for (int64_t u = 0; u < packing.num_utterances(); ++u) {
    const float* first = of_row + packing.starts()[static_cast<size_t>(u)];
    double sum = 0.0;
    for (int64_t i = 0; i < packing.lengths()[static_cast<size_t>(u)]; ++i) sum += first[i];
    of_utterance[u] = static_cast<float>(sum);
  }
}

}  // namespace sotto::kernels::detail
