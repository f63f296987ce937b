#include "sotto/kernels/convolution/frame_windows.h"

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/base/kernel.h"
#include "sotto/kernels/convolution/window_arrays.h"

namespace sotto::kernels {

namespace detail {
void frame_windows_forward_cpu(const at::Tensor& x, const at::Tensor& y,
                               const FrameWindows::Packings& packings,
                               const FrameWindows::Options& options);
void frame_windows_backward_cpu(const at::Tensor& dy, const at::Tensor& dx,
                                const FrameWindows::Packings& packings,
                                const FrameWindows::Options& options);
SOTTO_CUDA_ENTRY void frame_windows_forward_cuda(const FrameWindowArrays& in, void* stream);
SOTTO_CUDA_ENTRY void frame_windows_backward_cuda(const FrameWindowArrays& in, void* stream);
}  // namespace detail

namespace {

void check(const FrameWindows::Packings& packings, const FrameWindows::Options& options) {
  SOTTO_ASSERT(options.size >= 1 && options.stride >= 1 && options.before >= 0 &&
                   options.before < options.size,
               "windows of {} frames, stride {}, {} before", options.size, options.stride,
               options.before);
  SOTTO_ASSERT(packings.to.lengths() ==
                   FrameWindows::windowed_lengths(packings.from.lengths(), options.stride),
               "the lengths of the window packing do not match");
}

FrameWindowArrays cuda_arrays(const at::Tensor& frames, const at::Tensor& windows,
                              const FrameWindows::Packings& packings,
                              const FrameWindows::Options& options) {
  return {.frames = cuda_array(frames),
          .windows = cuda_array(windows),
          .from = cuda_pack(packings.from),
          .to = cuda_pack(packings.to),
          .size = options.size,
          .stride = options.stride,
          .before = options.before};
}

}  // namespace

std::vector<int64_t> FrameWindows::windowed_lengths(const std::vector<int64_t>& lengths,
                                                    int64_t stride) {
  std::vector<int64_t> windowed;
  windowed.reserve(lengths.size());
  for (const int64_t length : lengths) windowed.push_back((length + stride - 1) / stride);
  return windowed;
}

at::Tensor FrameWindows::forward(const at::Tensor& x, const Packings& packings,
                                 const Options& options) {
  check_rows(x, "x");
  check(packings, options);
  SOTTO_ASSERT(x.size(0) == packings.from.num_frames(), "{} rows for {} frames", x.size(0),
               packings.from.num_frames());
  at::Tensor y = make_result({packings.to.num_frames(), options.size * x.size(1)}, x);
  report_cost("frame_windows.forward", {.flops = 0.0, .bytes = 2.0 * bytes_of(y)});
  if (is_dry(x)) return y;
  if (x.is_cuda()) {
    detail::frame_windows_forward_cuda(cuda_arrays(x, y, packings, options),
                                       device::current_cuda_stream());
  } else {
    detail::frame_windows_forward_cpu(x, y, packings, options);
  }
  return y;
}

at::Tensor FrameWindows::backward(const at::Tensor& dy, const Packings& packings,
                                  const Options& options) {
  check_rows(dy, "dy");
  check(packings, options);
  SOTTO_ASSERT(dy.size(0) == packings.to.num_frames() && dy.size(1) % options.size == 0,
               "dy is [{}, {}]", dy.size(0), dy.size(1));
  at::Tensor dx = make_result({packings.from.num_frames(), dy.size(1) / options.size}, dy);
  report_cost("frame_windows.backward",
              {.flops = static_cast<double>(dy.numel()), .bytes = bytes_of(dy) + bytes_of(dx)});
  if (is_dry(dy)) return dx;
  if (dy.is_cuda()) {
    detail::frame_windows_backward_cuda(cuda_arrays(dx, dy, packings, options),
                                        device::current_cuda_stream());
  } else {
    detail::frame_windows_backward_cpu(dy, dx, packings, options);
  }
  return dx;
}

}  // namespace sotto::kernels
