#include "sotto/kernels/cpu_kernel.h"
#include "sotto/kernels/dropout.h"
#include "sotto/kernels/dropout_mask.h"

namespace sotto::kernels::detail {

namespace {

// Elements [begin, end) of an utterance that lies contiguously at `x`.
template <class T>
void drop_range(T* x, int64_t begin, int64_t end, const auto& bits_of, uint32_t threshold) {
  const float scale = dropout_scale(threshold);
  for (int64_t block = begin / kDropoutBlock; block * kDropoutBlock < end; ++block) {
    const PhiloxCounter bits = bits_of(static_cast<uint64_t>(block));
    const int64_t first = block * kDropoutBlock;
    const int64_t from = std::max(begin, first);
    const int64_t to = std::min(end, first + kDropoutBlock);
    for (int64_t i = from; i < to; ++i) {
      const float kept = dropout_keeps(bits, i - first, threshold) ? scale : 0.0f;
      x[i] = static_cast<T>(static_cast<float>(x[i]) * kept);
    }
  }
}

}  // namespace

void dropout_cpu(const at::Tensor& x, const Packing& packing, PhiloxKey key, uint32_t threshold) {
  const int64_t width = x.size(1);
  constexpr int64_t kWorkAnElement = 4;
  with_element_type(x, [&](auto zero) {
    using T = decltype(zero);
    T* data = x.mutable_data_ptr<T>();
    parallel_rows(x.size(0), width * kWorkAnElement, [&](int64_t begin, int64_t end) {
      for (int64_t u = packing.utterance_of(begin); begin < end; ++u) {
        const int64_t start = packing.starts()[static_cast<size_t>(u)];
        const int64_t stop = std::min(end, packing.starts()[static_cast<size_t>(u) + 1]);
        const uint64_t utterance = fold(packing.keys()[static_cast<size_t>(u)]);
        const auto bits_of = [&](uint64_t block) { return dropout_bits(block, utterance, key); };
        drop_range(data + start * width, (begin - start) * width, (stop - start) * width, bits_of,
                   threshold);
        begin = stop;
      }
    });
  });
}

}  // namespace sotto::kernels::detail
