#include "sotto/kernels/convolution/image_windows.h"

#include <array>
#include <cstring>

#include "sotto/kernels/convolution/image_rows.h"
#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/simd.h"

namespace sotto::kernels::detail {

namespace {

// Copies three adjacent bins of a frame from bin 2 window - 1 on, with zeros outside of its bins.
void copy_bins(const std::byte* frame, std::byte* to, int64_t window, const ImageShape& shape,
               int64_t bytes_per_bin) {
  const int64_t first = 2 * window - 1;
  const int64_t skipped = first < 0 ? 1 : 0;
  const int64_t count = std::min(ImageShape::kSize, shape.bins - first) - skipped;
  const auto bytes = [&](int64_t bins) { return static_cast<size_t>(bins * bytes_per_bin); };
  std::memset(to, 0, bytes(skipped));
  std::memcpy(to + bytes(skipped), frame + (first + skipped) * bytes_per_bin, bytes(count));
  std::memset(to + bytes(skipped + count), 0, bytes(ImageShape::kSize - skipped - count));
}

// Parts of windows that see a value: four at most, two along each axis.
template <class T>
struct SeeingParts {
  std::array<const T*, 4> at;
  size_t count = 0;
};

// Computes dx of one bin of a frame: the sum over all windows that contain it, in order.
template <class T>
void sum_parts(const SeeingParts<T>& parts, T* to, int64_t channels) {
  simd::for_each_block(channels, [&](int64_t i, auto n) {
    simd::Lanes sum;  // zeros
    for (size_t part = 0; part < parts.count; ++part) sum = sum + simd::load(parts.at[part] + i, n);
    simd::store(to + i, sum, n);
  });
}

}  // namespace

void image_windows_forward_cpu(const at::Tensor& x, const at::Tensor& y,
                               const ImagePackings& packings, const ImageShape& shape) {
  const int64_t bytes_per_bin = shape.channels * static_cast<int64_t>(x.itemsize());
  const int64_t part_bytes = ImageShape::kSize * bytes_per_bin;
  const auto* from = static_cast<const std::byte*>(x.const_data_ptr());
  auto* to = static_cast<std::byte*>(y.mutable_data_ptr());
  const int64_t work = shape.windowed_width() * ImageShape::kTaps;
  for_each_image_row(packings.to, work, [&](const ImageRow& window) {
    const auto utterance = static_cast<size_t>(window.utterance);
    const int64_t first = 2 * window.frame - shape.zeros_before(window.utterance);
    std::byte* cell = to + window.row * shape.windowed_bins() * ImageShape::kSize * part_bytes;
    for (int64_t bin = 0; bin < shape.windowed_bins(); ++bin) {
      for (int64_t frame = first; frame < first + ImageShape::kSize; ++frame, cell += part_bytes) {
        if (frame < 0 || frame >= packings.from.lengths()[utterance]) {
          std::memset(cell, 0, static_cast<size_t>(part_bytes));
        } else {
          copy_bins(from + (packings.from.starts()[utterance] + frame) * shape.bins * bytes_per_bin,
                    cell, bin, shape, bytes_per_bin);
        }
      }
    }
  });
}

void image_windows_backward_cpu(const at::Tensor& dy, const at::Tensor& dx,
                                const ImagePackings& packings, const ImageShape& shape) {
  with_element_type(dy, [&](auto zero) {
    using T = decltype(zero);
    const T* from = dy.const_data_ptr<T>();
    T* to = dx.mutable_data_ptr<T>();
    for_each_image_row(packings.from, shape.width() * ImageShape::kSize, [&](const ImageRow& row) {
      const auto utterance = static_cast<size_t>(row.utterance);
      const int64_t zeros_before = shape.zeros_before(row.utterance);
      const SeeingWindows frames =
          SeeingWindows::of(row.frame, zeros_before, packings.to.lengths()[utterance]);
      for (int64_t bin = 0; bin < shape.bins; ++bin) {
        const SeeingWindows bins = SeeingWindows::of(bin, 1, shape.windowed_bins());
        SeeingParts<T> parts;
        for (int64_t m = frames.first; m <= frames.last; ++m) {
          const int64_t window = packings.to.starts()[utterance] + m;
          for (int64_t b = bins.first; b <= bins.last; ++b) {
            const int64_t tap =
                (row.frame + zeros_before - 2 * m) * ImageShape::kSize + bin + 1 - 2 * b;
            const int64_t position = window * shape.windowed_bins() + b;
            parts.at[parts.count++] = from + (position * ImageShape::kTaps + tap) * shape.channels;
          }
        }
        sum_parts(parts, to + (row.row * shape.bins + bin) * shape.channels, shape.channels);
      }
    });
  });
}

}  // namespace sotto::kernels::detail
