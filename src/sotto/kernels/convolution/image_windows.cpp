#include "sotto/kernels/convolution/image_windows.h"

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/base/kernel.h"
#include "sotto/kernels/convolution/image_arrays.h"

namespace sotto::kernels {

namespace detail {
void image_windows_forward_cpu(const at::Tensor& x, const at::Tensor& y,
                               const ImagePackings& packings, const ImageShape& shape);
void image_windows_backward_cpu(const at::Tensor& dy, const at::Tensor& dx,
                                const ImagePackings& packings, const ImageShape& shape);
SOTTO_CUDA_ENTRY void image_windows_forward_cuda(const ImageWindowArrays& in, void* stream);
SOTTO_CUDA_ENTRY void image_windows_backward_cuda(const ImageWindowArrays& in, void* stream);
}  // namespace detail

namespace {

ImageWindowArrays cuda_arrays(const at::Tensor& frames, const at::Tensor& windows,
                              const ImagePackings& packings, const ImageShape& shape) {
  return {.frames = cuda_array(frames),
          .windows = cuda_array(windows),
          .from = cuda_pack(packings.from),
          .to = cuda_pack(packings.to),
          .shape = shape};
}

}  // namespace

void ImagePackings::check(const ImageShape& shape) const {
  SOTTO_ASSERT(shape.bins >= 1 && shape.channels >= 1, "images of {} bins and {} channels",
               shape.bins, shape.channels);
  SOTTO_ASSERT(from.num_utterances() == to.num_utterances(), "{} utterances become {}",
               from.num_utterances(), to.num_utterances());
  for (int64_t u = 0; u < from.num_utterances(); ++u) {
    const auto index = static_cast<size_t>(u);
    const int64_t frames = from.lengths()[index], windows = to.lengths()[index];
    // The last window sees its centre at least.
    const int64_t least = 2 * windows - shape.zeros_before(u);
    SOTTO_ASSERT(frames == least || frames == least + 1, "{} frames for {} windows", frames,
                 windows);
  }
}

at::Tensor ImageWindows::forward(const at::Tensor& x, const ImagePackings& packings,
                                 const ImageShape& shape) {
  check_rows(x, "x");
  packings.check(shape);
  SOTTO_ASSERT(x.size(0) == packings.from.num_frames() && x.size(1) == shape.width(),
               "x is [{}, {}]", x.size(0), x.size(1));
  at::Tensor y = make_result(
      {packings.to.num_frames() * shape.windowed_bins(), ImageShape::kTaps * shape.channels}, x);
  report_cost("image_windows.forward", {.flops = 0.0, .bytes = bytes_of(x) + bytes_of(y)});
  if (is_dry(x)) return y;
  if (x.is_cuda()) {
    detail::image_windows_forward_cuda(cuda_arrays(x, y, packings, shape),
                                       device::current_cuda_stream());
  } else {
    detail::image_windows_forward_cpu(x, y, packings, shape);
  }
  return y;
}

at::Tensor ImageWindows::backward(const at::Tensor& dy, const ImagePackings& packings,
                                  const ImageShape& shape) {
  check_rows(dy, "dy");
  packings.check(shape);
  SOTTO_ASSERT(dy.size(0) == packings.to.num_frames() * shape.windowed_bins() &&
                   dy.size(1) == ImageShape::kTaps * shape.channels,
               "dy is [{}, {}]", dy.size(0), dy.size(1));
  at::Tensor dx = make_result({packings.from.num_frames(), shape.width()}, dy);
  report_cost("image_windows.backward",
              {.flops = static_cast<double>(dy.numel()), .bytes = bytes_of(dy) + bytes_of(dx)});
  if (is_dry(dy)) return dx;
  if (dy.is_cuda()) {
    detail::image_windows_backward_cuda(cuda_arrays(dx, dy, packings, shape),
                                        device::current_cuda_stream());
  } else {
    detail::image_windows_backward_cpu(dy, dx, packings, shape);
  }
  return dx;
}

}  // namespace sotto::kernels
