#include "sotto/kernels/cpu_kernel.h"
#include "sotto/kernels/dropout.h"
#include "sotto/kernels/dropout_bits.h"
#include "sotto/kernels/simd.h"

namespace sotto::kernels::detail {

namespace {

using simd::Lanes;

// A run of elements of one utterance, counted from its first.
struct Range {
  uint64_t utterance;
  int64_t begin;
  int64_t end;
};

// `x` and `y` are the utterance's first elements; its rows lie one behind the other.
template <class T>
void drop_range(const T* x, T* y, const Range& range, const DropoutRule& rule) {
  const float scale = dropout_scale(rule.threshold);
  const auto threshold = static_cast<int32_t>(rule.threshold);
  uint16_t bits[kDropoutElementsAtOnce + simd::kLanes];  // the tail is read as a whole block
  int64_t first = range.begin / kDropoutBlock * kDropoutBlock;
  for (; first < range.end; first += kDropoutElementsAtOnce) {
    fill_dropout_bits(static_cast<uint64_t>(first / kDropoutBlock), range.utterance, rule.key,
                      bits);
    const int64_t from = std::max(range.begin, first);
    const int64_t to = std::min(range.end, first + kDropoutElementsAtOnce);
    simd::for_each_block(to - from, [&](int64_t i, auto n) {
      const simd::IntLanes drawn = simd::load_unsigned(bits + (from - first) + i);
      const Lanes factor = simd::select<float>(drawn < threshold, 0.0f, scale);
      simd::store(y + from + i, simd::load(x + from + i, n) * factor, n);
    });
  }
}

}  // namespace

void dropout_cpu(const at::Tensor& x, const at::Tensor& y, const Packing& packing,
                 const DropoutRule& rule) {
  constexpr int64_t kWorkAnElement = 4;
  const int64_t width = x.size(1);
  with_element_type(x, [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.const_data_ptr<T>();
    T* to = y.mutable_data_ptr<T>();
    parallel_rows(x.size(0), width * kWorkAnElement, [&](int64_t begin, int64_t end) {
      auto u = static_cast<size_t>(packing.utterance_of(begin));
      for (int64_t row = begin; row < end; row = packing.starts()[++u]) {
        const int64_t start = packing.starts()[u];
        const int64_t stop = std::min(end, packing.starts()[u + 1]);
        const Range range{.utterance = fold(packing.keys()[u]),
                          .begin = (row - start) * width,
                          .end = (stop - start) * width};
        drop_range(from + start * width, to + start * width, range, rule);
      }
    });
  });
}

}  // namespace sotto::kernels::detail
