#include "sotto/kernels/convolution/image_depthwise.h"

#include <limits>

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/base/kernel.h"
#include "sotto/kernels/convolution/image_arrays.h"
#include "sotto/kernels/convolution/image_tensors.h"

namespace sotto::kernels {

namespace detail {
// Converts the weight [C, 9] to `taps` [9, C].
void image_depthwise_order_cpu(const at::Tensor& weight, const at::Tensor& taps);
void image_depthwise_forward_cpu(const ImageTensors& in, const at::Tensor& bias);
void image_depthwise_input_gradient_cpu(const ImageTensors& in);
// Writes the partial sums of each slab to `taps` [slabs, 10, C].
void image_depthwise_accumulate_cpu(const ImageTensors& in);
// Adds the slabs to the gradients of weight and bias.
void image_depthwise_fold_cpu(const at::Tensor& partial, const ImageDepthwise::Gradients& to);
SOTTO_CUDA_ENTRY void image_depthwise_forward_cuda(const ImageDepthwiseArrays& in, void* stream);
SOTTO_CUDA_ENTRY void image_depthwise_input_gradient_cuda(const ImageDepthwiseArrays& in,
                                                          void* stream);
SOTTO_CUDA_ENTRY void image_depthwise_accumulate_cuda(const ImageDepthwiseArrays& in,
                                                      int64_t num_slabs, void* stream);
}  // namespace detail

namespace {

void check_frames(const at::Tensor& x, const ImagePackings& packings, const ImageShape& shape) {
  check_rows(x, "x");
  SOTTO_ASSERT(x.size(0) == packings.from.num_frames() && x.size(1) == shape.width(),
               "x is [{}, {}]", x.size(0), x.size(1));
}

void check_outputs(const at::Tensor& dy, const ImagePackings& packings, const ImageShape& shape) {
  check_rows(dy, "dy");
  SOTTO_ASSERT(dy.size(0) == packings.to.num_frames() && dy.size(1) == shape.windowed_width(),
               "dy is [{}, {}]", dy.size(0), dy.size(1));
}

void check_weight(const at::Tensor& weight, const ImageShape& shape) {
  check_rows(weight, "weight");
  SOTTO_ASSERT(weight.size(0) == shape.channels && weight.size(1) == ImageShape::kTaps,
               "a weight of [{}, {}] for {} channels", weight.size(0), weight.size(1),
               shape.channels);
}

ImageDepthwiseArrays cuda_arrays(const ImageTensors& in) {
  return {.frames = cuda_array(in.frames),
          .outputs = cuda_array(in.outputs),
          .weight = {},
          .bias = {},
          .taps = cuda_array(in.taps),
          .from = cuda_pack(in.packings.from),
          .to = cuda_pack(in.packings.to),
          .shape = in.shape};
}

double products_of(const at::Tensor& outputs) {
  return 2.0 * ImageShape::kTaps * static_cast<double>(outputs.numel());
}

at::Tensor make_taps(const at::Tensor& x, const ImageShape& shape) {
  return make_workspace({ImageShape::kTaps, shape.channels}, x.options().dtype(at::kFloat));
}

}  // namespace

at::Tensor ImageDepthwise::forward(const at::Tensor& x, const Weights& weights,
                                   const ImagePackings& packings, const ImageShape& shape) {
  packings.check(shape);
  check_frames(x, packings, shape);
  check_weight(weights.weight, shape);
  check_float_vector(weights.bias, shape.channels, "bias");
  at::Tensor y = make_result({packings.to.num_frames(), shape.windowed_width()}, x);
  report_cost("image_depthwise.forward",
              {.flops = products_of(y), .bytes = bytes_of(x) + bytes_of(y)});
  const at::Tensor taps = make_taps(x, shape);
  if (is_dry(x)) return y;
  const ImageTensors all{
      .frames = x, .outputs = y, .taps = taps, .packings = packings, .shape = shape};
  if (x.is_cuda()) {
    ImageDepthwiseArrays arrays = cuda_arrays(all);
    arrays.weight = cuda_array(weights.weight);
    arrays.bias = cuda_array(weights.bias);
    detail::image_depthwise_forward_cuda(arrays, device::current_cuda_stream());
  } else {
    detail::image_depthwise_order_cpu(weights.weight, taps);
    detail::image_depthwise_forward_cpu(all, weights.bias);
  }
  return y;
}

at::Tensor ImageDepthwise::input_gradient(const at::Tensor& dy, const at::Tensor& weight,
                                          const ImagePackings& packings, const ImageShape& shape) {
  packings.check(shape);
  check_outputs(dy, packings, shape);
  check_weight(weight, shape);
  at::Tensor dx = make_result({packings.from.num_frames(), shape.width()}, dy);
  report_cost("image_depthwise.input_gradient",
              {.flops = products_of(dy), .bytes = bytes_of(dy) + bytes_of(dx)});
  const at::Tensor taps = make_taps(dy, shape);
  if (is_dry(dy)) return dx;
  const ImageTensors all{
      .frames = dx, .outputs = dy, .taps = taps, .packings = packings, .shape = shape};
  if (dy.is_cuda()) {
    ImageDepthwiseArrays arrays = cuda_arrays(all);
    arrays.weight = cuda_array(weight);
    detail::image_depthwise_input_gradient_cuda(arrays, device::current_cuda_stream());
  } else {
    detail::image_depthwise_order_cpu(weight, taps);
    detail::image_depthwise_input_gradient_cpu(all);
  }
  return dx;
}

void ImageDepthwise::accumulate(const Gradients& gradients, const Ends& ends,
                                const ImagePackings& packings, const ImageShape& shape) {
  packings.check(shape);
  check_frames(ends.x, packings, shape);
  check_outputs(ends.dy, packings, shape);
  check_weight(gradients.weight, shape);
  check_float_vector(gradients.bias, shape.channels, "gradient of the bias");
  SOTTO_ASSERT(gradients.weight.scalar_type() == at::kFloat, "a gradient in {}",
               c10::toString(gradients.weight.scalar_type()));
  report_cost("image_depthwise.accumulate",
              {.flops = products_of(ends.dy), .bytes = bytes_of(ends.dy) + bytes_of(ends.x)});
  const int64_t num_positions = ends.dy.size(0) * shape.windowed_bins();
  SOTTO_ASSERT(num_positions <= std::numeric_limits<int32_t>::max(), "{} windows at once",
               num_positions);
  const at::Tensor partial =
      make_workspace({num_row_slabs(num_positions), ImageShape::kTaps + 1, shape.channels},
                     ends.x.options().dtype(at::kFloat));
  if (is_dry(ends.x)) return;
  const ImageTensors all{
      .frames = ends.x, .outputs = ends.dy, .taps = partial, .packings = packings, .shape = shape};
  if (ends.x.is_cuda()) {
    ImageDepthwiseArrays arrays = cuda_arrays(all);
    arrays.weight = cuda_array(gradients.weight);
    arrays.bias = cuda_array(gradients.bias);
    detail::image_depthwise_accumulate_cuda(arrays, partial.size(0), device::current_cuda_stream());
  } else {
    detail::image_depthwise_accumulate_cpu(all);
    detail::image_depthwise_fold_cpu(partial, gradients);
  }
}

}  // namespace sotto::kernels
