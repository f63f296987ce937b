#include <algorithm>
#include <cstring>

#include "sotto/kernels/convolution/frame_windows.h"
#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/simd.h"

namespace sotto::kernels::detail {

namespace {

// Computes dx of one frame: the sum over all windows that contain it, in order.
template <class T>
void sum_windows(const T* dy, T* to, int64_t frame, int64_t num_windows, int64_t width,
                 const FrameWindows::Options& options) {
  const int64_t shifted = frame + options.before;
  const int64_t last = std::min(shifted / options.stride, num_windows - 1);
  const int64_t first =
      std::max<int64_t>(0, (shifted - options.size + options.stride) / options.stride);
  simd::for_each_block(width, [&](int64_t i, auto n) {
    simd::Lanes sum;  // zeros
    for (int64_t window = first; window <= last; ++window) {
      const int64_t index = shifted - window * options.stride;
      if (index >= options.size) continue;
      sum = sum + simd::load(dy + (window * options.size + index) * width + i, n);
    }
    simd::store(to + i, sum, n);
  });
}

}  // namespace

void frame_windows_forward_cpu(const at::Tensor& x, const at::Tensor& y,
                               const FrameWindows::Packings& packings,
                               const FrameWindows::Options& options) {
  const int64_t frame_bytes = x.size(1) * static_cast<int64_t>(x.itemsize());
  const auto* from = static_cast<const std::byte*>(x.const_data_ptr());
  auto* to = static_cast<std::byte*>(y.mutable_data_ptr());
  parallel_rows(y.size(0), y.size(1), [&](int64_t begin, int64_t end) {
    int64_t u = packings.to.utterance_of(begin);
    for (int64_t row = begin; row < end; ++row) {
      while (row >= packings.to.starts()[static_cast<size_t>(u) + 1]) ++u;
      const auto utterance = static_cast<size_t>(u);
      const int64_t window = row - packings.to.starts()[utterance];
      for (int64_t index = 0; index < options.size; ++index) {
        const int64_t frame = window * options.stride - options.before + index;
        std::byte* cell = to + (row * options.size + index) * frame_bytes;
        if (frame < 0 || frame >= packings.from.lengths()[utterance]) {
          std::memset(cell, 0, static_cast<size_t>(frame_bytes));
        } else {
          std::memcpy(cell, from + (packings.from.starts()[utterance] + frame) * frame_bytes,
                      static_cast<size_t>(frame_bytes));
        }
      }
    }
  });
}

void frame_windows_backward_cpu(const at::Tensor& dy, const at::Tensor& dx,
                                const FrameWindows::Packings& packings,
                                const FrameWindows::Options& options) {
  const int64_t width = dx.size(1);
  with_element_type(dy, [&](auto zero) {
    using T = decltype(zero);
    const T* from = dy.const_data_ptr<T>();
    T* to = dx.mutable_data_ptr<T>();
    parallel_rows(dx.size(0), dx.size(1) * options.size, [&](int64_t begin, int64_t end) {
      int64_t u = packings.from.utterance_of(begin);
      for (int64_t row = begin; row < end; ++row) {
        while (row >= packings.from.starts()[static_cast<size_t>(u) + 1]) ++u;
        const auto utterance = static_cast<size_t>(u);
        sum_windows(from + packings.to.starts()[utterance] * options.size * width, to + row * width,
                    row - packings.from.starts()[utterance], packings.to.lengths()[utterance],
                    width, options);
      }
    });
  });
}

}  // namespace sotto::kernels::detail
