// Rows of the kernel table: convolutions over time and bins.
#include "sotto/kernels/convolution/image_depthwise.h"
#include "sotto/kernels/convolution/image_windows.h"
#include "support/kernel_case_tools.h"

namespace sotto::test {

namespace {

using namespace sotto::kernels;  // NOLINT: the table names kernels on every line

// With vectors of a GPU and without, and a single channel, as features have.
int64_t channels_for(int64_t width) {
  for (const int64_t channels : {16, 8, 3})
    if (width % channels == 0) return channels;
  return 1;
}

// Whole utterances, and where the first is long enough a pack that starts inside of it.
std::vector<ImageShape> image_shapes(int64_t width, const Packing& packing) {
  const int64_t channels = channels_for(width);
  const ImageShape whole{.bins = width / channels, .channels = channels};
  std::vector<ImageShape> shapes = {whole};
  if (packing.lengths().front() > 1) {
    shapes.push_back(whole);
    shapes.back().starts_inside = true;
  }
  return shapes;
}

Packing windowed(const Packing& packing, const ImageShape& shape, const at::Device& device) {
  std::vector<int64_t> lengths;
  for (int64_t u = 0; u < packing.num_utterances(); ++u)
    lengths.push_back((packing.lengths()[static_cast<size_t>(u)] + shape.zeros_before(u)) / 2);
  return {lengths, device};
}

// As many frames as the whole utterances have windows.
int64_t num_windows(const Shape& s) {
  return windowed(Packing(lengths_for(s.rows), at::kCPU), {}, at::kCPU).num_frames();
}
int64_t windowed_width(const Shape& s) {
  const int64_t channels = channels_for(s.width);
  return ImageShape{.bins = s.width / channels, .channels = channels}.windowed_width();
}

// The first windows' gradient.
at::Tensor first_of(const at::Tensor& dy, const Packing& to, int64_t rows_per_window = 1) {
  return dy.narrow(0, 0, to.num_frames() * rows_per_window);
}

// One utterance [T, F C] as a padded image [1, C, T + 2, F + 2], without the zero before the first
// frame where the pack starts inside.
at::Tensor padded_image(const at::Tensor& frames, const ImageShape& shape, int64_t utterance) {
  const at::Tensor image =
      frames.view({1, frames.size(0), shape.bins, shape.channels}).permute({0, 3, 1, 2});
  return at::constant_pad_nd(image, {1, 1, shape.zeros_before(utterance), 1});
}

// [1, C, T, F] as frames [T, F C].
at::Tensor frames_of(const at::Tensor& image) {
  return image.squeeze(0).permute({1, 2, 0}).reshape({image.size(2), -1});
}

// --- windows of images: inputs x, dy; results y, dx of whole utterances, and of parts

std::vector<Input> image_windows_inputs(const Shape& s) {
  const int64_t channels = channels_for(s.width);
  return {data({s.rows, s.width}, 1),
          data({num_windows(s) * windowed_width(s) / channels, 9 * channels}, 2)};
}
Tensors run_image_windows(const Tensors& in, const Packing& packing) {
  Tensors results;
  for (const ImageShape& shape : image_shapes(in[0].size(1), packing)) {
    const Packing to = windowed(packing, shape, in[0].device());
    const ImagePackings packings{.from = packing, .to = to};
    results.push_back(ImageWindows::forward(in[0], packings, shape));
    results.push_back(
        ImageWindows::backward(first_of(in[1], to, shape.windowed_bins()), packings, shape));
  }
  return results;
}
Tensors reference_image_windows(const Tensors& in, const Packing& packing) {
  Tensors results;
  for (const ImageShape& shape : image_shapes(in[0].size(1), packing)) {
    const at::Tensor x = leaf(in[0]);
    Tensors parts;
    for (const at::Tensor& utterance : x.split_with_sizes(packing.lengths())) {
      const at::Tensor image = padded_image(utterance, shape, std::ssize(parts));
      // [1, C, M, F', 3, 3] to [M, F', 3, 3, C]
      const at::Tensor windows = image.unfold(2, 3, 2).unfold(3, 3, 2).squeeze(0);
      parts.push_back(windows.permute({1, 2, 3, 4, 0}).reshape({-1, 9 * shape.channels}));
    }
    const at::Tensor y = at::cat(parts);
    y.backward(in[1].narrow(0, 0, y.size(0)));
    results.insert(results.end(), {y.detach(), x.grad()});
  }
  return results;
}

// --- depthwise convolution of images: inputs x, dy, weight, bias; results y, dx, and the gradients
// of weight and bias twice over, of whole utterances, and of parts

std::vector<Input> image_depthwise_inputs(const Shape& s) {
  const int64_t channels = channels_for(s.width);
  return {data({s.rows, s.width}, 1), data({num_windows(s), windowed_width(s)}, 2),
          data({channels, 9}, 3), parameter({channels}, 4)};
}
Tensors run_image_depthwise(const Tensors& in, const Packing& packing) {
  Tensors results;
  for (const ImageShape& shape : image_shapes(in[0].size(1), packing)) {
    const Packing to = windowed(packing, shape, in[0].device());
    const ImagePackings packings{.from = packing, .to = to};
    const at::Tensor dy = first_of(in[1], to);
    at::Tensor grad_weight = float_zeros(in[2].sizes(), in[2]);
    at::Tensor grad_bias = float_zeros(in[3].sizes(), in[3]);
    results.push_back(
        ImageDepthwise::forward(in[0], {.weight = in[2], .bias = in[3]}, packings, shape));
    results.push_back(ImageDepthwise::input_gradient(dy, in[2], packings, shape));
    for (int i = 0; i < 2; ++i) {
      ImageDepthwise::accumulate({.weight = grad_weight, .bias = grad_bias}, {.dy = dy, .x = in[0]},
                                 packings, shape);
    }
    results.insert(results.end(), {grad_weight, grad_bias});
  }
  return results;
}
Tensors reference_image_depthwise(const Tensors& in, const Packing& packing) {
  Tensors results;
  for (const ImageShape& shape : image_shapes(in[0].size(1), packing)) {
    const at::Tensor x = leaf(in[0]), weight = leaf(in[2]), bias = leaf(in[3]);
    const at::Tensor taps = weight.view({shape.channels, 1, 3, 3});
    const int64_t no_padding = 0;  // the image has it
    Tensors parts;
    for (const at::Tensor& utterance : x.split_with_sizes(packing.lengths())) {
      const at::Tensor image = padded_image(utterance, shape, std::ssize(parts));
      parts.push_back(frames_of(at::conv2d(image, taps, bias, 2, no_padding, 1, shape.channels)));
    }
    const at::Tensor y = at::cat(parts);
    y.backward(in[1].narrow(0, 0, y.size(0)));
    results.insert(results.end(), {y.detach(), x.grad(), 2.0 * weight.grad(), 2.0 * bias.grad()});
  }
  return results;
}

}  // namespace

std::vector<KernelCase> image_kernel_cases() {
  return {
      {"ImageWindows", true, image_windows_inputs, run_image_windows, reference_image_windows},
      {"ImageDepthwise", true, image_depthwise_inputs, run_image_depthwise,
       reference_image_depthwise},
  };
}

}  // namespace sotto::test
