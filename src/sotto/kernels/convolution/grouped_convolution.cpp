#include "sotto/kernels/convolution/grouped_convolution.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "sotto/device/cuda_device.h"
#include "sotto/device/memory_scope.h"
#include "sotto/kernels/base/kernel.h"
#include "sotto/kernels/convolution/convolution_blocks.h"
#include "sotto/kernels/convolution/frame_windows.h"
#include "sotto/kernels/product/gemm.h"

namespace sotto::kernels {

namespace detail {
// Converts the group's weight [C, C, K] to taps.
void convolution_order_cpu(const at::Tensor& weight, const at::Tensor& taps,
                           const TapSource& source);
SOTTO_CUDA_ENTRY void convolution_order_cuda(const CudaTaps& in, void* stream);
// Builds the matrix from the taps.
void convolution_expand_cpu(const at::Tensor& taps, const at::Tensor& matrix,
                            const ConvolutionShape& shape);
SOTTO_CUDA_ENTRY void convolution_expand_cuda(const CudaArray& taps, const CudaArray& matrix,
                                              const ConvolutionShape& shape, void* stream);
// Copy frames to rows, with zeros outside of the utterance; and rows to frames, ignoring those
// outside.
void convolution_gather_cpu(const BlockRows& in);
SOTTO_CUDA_ENTRY void convolution_gather_cuda(const CudaBlockRows& in, void* stream);
void convolution_scatter_cpu(const BlockRows& in);
SOTTO_CUDA_ENTRY void convolution_scatter_cuda(const CudaBlockRows& in, void* stream);
// Adds the matrix's gradient to that of the group's weight [C, C, K].
void convolution_fold_cpu(const at::Tensor& matrix, const at::Tensor& grad_weight,
                          const ConvolutionShape& shape);
SOTTO_CUDA_ENTRY void convolution_fold_cuda(const CudaArray& matrix, const CudaArray& grad_weight,
                                            const ConvolutionShape& shape, void* stream);
}  // namespace detail

namespace {

ConvolutionShape checked_shape(const at::Tensor& x, const at::Tensor& weight,
                               const Packing& packing, const GroupedConvolution::Options& options) {
  check_rows(x, "x");
  SOTTO_ASSERT(x.size(0) == packing.num_frames(), "{} rows for {} frames", x.size(0),
               packing.num_frames());
  SOTTO_ASSERT(weight.dim() == 3 && weight.is_contiguous() && weight.size(0) == x.size(1) &&
                   weight.size(1) > 0 && x.size(1) % weight.size(1) == 0 && weight.size(2) > 0,
               "a weight of [{}] for width {}", fmt::join(weight.sizes(), ", "), x.size(1));
  SOTTO_ASSERT(options.block >= 0, "blocks of {} frames", options.block);
  return {.width = x.size(1),
          .channels = weight.size(1),
          .taps = weight.size(2),
          .block = options.block > 0 ? options.block : GroupedConvolution::default_block(weight)};
}

// Returns the weight, or its gradient, of one group: [C, C, K].
at::Tensor group_of(const at::Tensor& weight, int64_t group) {
  return weight.narrow(0, group * weight.size(1), weight.size(1));
}

// Returns the number of frames before an output that it sees. The gradient of an input sees the
// outputs that saw it: the same number after it, and with an even number of taps one fewer before
// it.
int64_t frames_before(const ConvolutionShape& shape, ConvolutionDirection direction) {
  const int64_t before = shape.taps / 2;
  return direction == ConvolutionDirection::kForward ? before : shape.taps - 1 - before;
}

// Location of some rows of windows or blocks.
struct Position {
  int64_t group;
  int64_t first_block;
};

// Iterates over the blocks of a pack: as many at a time as the bound of the windows allows.
class Blocks {
 public:
  Blocks(const at::Tensor& x, const at::Tensor& weight, const Packing& packing,
         const GroupedConvolution::Options& options)
      : shape_(checked_shape(x, weight, packing, options)),
        packing_(packing),
        blocks_(FrameWindows::windowed_lengths(packing.lengths(), shape_.block), x.device()),
        at_once_(std::clamp<int64_t>(
            options.max_window_bytes / (shape_.matrix_rows() * static_cast<int64_t>(x.itemsize())),
            1, blocks_.num_frames())) {}

  const ConvolutionShape& shape() const { return shape_; }
  int64_t num_groups() const { return shape_.width / shape_.channels; }
  // Blocks of the largest chunk.
  int64_t at_once() const { return at_once_; }

  // Calls body(position, number of blocks) for the chunks of a group.
  template <class Body>
  void for_each_chunk(int64_t group, Body body) const {
    const int64_t num_blocks = blocks_.num_frames();
    for (int64_t first = 0; first < num_blocks; first += at_once_)
      body(Position{.group = group, .first_block = first}, std::min(at_once_, num_blocks - first));
  }

  BlockRows rows_at(const Position& position, const at::Tensor& frames, const at::Tensor& rows,
                    int64_t before) const {
    return {.frames = frames,
            .rows = rows,
            .packing = packing_,
            .blocks = blocks_,
            .shape = shape_,
            .first_block = position.first_block,
            .first_channel = position.group * shape_.channels,
            .before = before};
  }

 private:
  ConvolutionShape shape_;
  const Packing& packing_;
  Packing blocks_;  // its frames are blocks
  int64_t at_once_;
};

void report_moved(std::string_view step, double bytes) {
  report_cost(step, {.flops = 0.0, .bytes = bytes});
}

void order_taps(const at::Tensor& weight, const at::Tensor& taps, const TapSource& source) {
  report_moved("grouped_convolution.order", bytes_of(weight) + bytes_of(taps));
  if (is_dry(taps)) return;
  if (!taps.is_cuda()) return detail::convolution_order_cpu(weight, taps, source);
  detail::convolution_order_cuda(
      {.weight = cuda_array(weight), .taps = cuda_array(taps), .source = source},
      device::current_cuda_stream());
}

void expand_taps(const at::Tensor& taps, const at::Tensor& matrix, const ConvolutionShape& shape) {
  report_moved("grouped_convolution.expand", bytes_of(taps) + bytes_of(matrix));
  if (is_dry(taps)) return;
  if (!taps.is_cuda()) return detail::convolution_expand_cpu(taps, matrix, shape);
  detail::convolution_expand_cuda(cuda_array(taps), cuda_array(matrix), shape,
                                  device::current_cuda_stream());
}

CudaBlockRows cuda_block_rows(const BlockRows& in) {
  return {.frames = cuda_array(in.frames),
          .rows = cuda_array(in.rows),
          .pack = cuda_pack(in.packing),
          .blocks = cuda_pack(in.blocks),
          .shape = in.shape,
          .first_block = in.first_block,
          .first_channel = in.first_channel,
          .before = in.before};
}

void gather_rows(const BlockRows& in) {
  report_moved("grouped_convolution.gather", 2.0 * bytes_of(in.rows));
  if (is_dry(in.rows)) return;
  if (!in.rows.is_cuda()) return detail::convolution_gather_cpu(in);
  detail::convolution_gather_cuda(cuda_block_rows(in), device::current_cuda_stream());
}

void scatter_rows(const BlockRows& in) {
  report_moved("grouped_convolution.scatter", 2.0 * bytes_of(in.rows));
  if (is_dry(in.rows)) return;
  if (!in.rows.is_cuda()) return detail::convolution_scatter_cpu(in);
  detail::convolution_scatter_cuda(cuda_block_rows(in), device::current_cuda_stream());
}

void fold_matrix(const at::Tensor& matrix, const at::Tensor& grad_weight,
                 const ConvolutionShape& shape) {
  report_cost("grouped_convolution.fold",
              {.flops = static_cast<double>(matrix.numel()),
               .bytes = bytes_of(matrix) + 2.0 * bytes_of(grad_weight)});
  if (is_dry(matrix)) return;
  if (!matrix.is_cuda()) return detail::convolution_fold_cpu(matrix, grad_weight, shape);
  detail::convolution_fold_cuda(cuda_array(matrix), cuda_array(grad_weight), shape,
                                device::current_cuda_stream());
}

at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, const Blocks& blocks,
                    ConvolutionDirection direction) {
  const ConvolutionShape& shape = blocks.shape();
  SOTTO_ASSERT(weight.scalar_type() == x.scalar_type(), "x is {}, the weight is {}",
               c10::toString(x.scalar_type()), c10::toString(weight.scalar_type()));
  at::Tensor y = make_result(x.sizes(), x);
  const at::Tensor taps =
      make_workspace({shape.channels, shape.padded_taps(), shape.channels}, x.options());
  const at::Tensor matrix =
      make_workspace({shape.matrix_rows(), shape.matrix_columns()}, x.options());
  const at::Tensor all_windows =
      make_workspace({blocks.at_once(), shape.matrix_rows()}, x.options());
  const int64_t before = frames_before(shape, direction);
  for (int64_t group = 0; group < blocks.num_groups(); ++group) {
    order_taps(group_of(weight, group), taps, {.shape = shape, .direction = direction});
    expand_taps(taps, matrix, shape);
    blocks.for_each_chunk(group, [&](const Position& position, int64_t count) {
      const at::Tensor windows = all_windows.narrow(0, 0, count);
      gather_rows(blocks.rows_at(position, x, windows, before));
      const device::CategoryScope category(device::Category::kWorkspace);
      const at::Tensor product = Gemm::multiply({.a = windows, .b = matrix});  // [count, S C]
      scatter_rows(blocks.rows_at(position, y, product, 0));
    });
  }
  return y;
}

}  // namespace

int64_t GroupedConvolution::default_block(const at::Tensor& weight) {
  // A GPU needs tiles for all its multiprocessors. A CPU reaches its full rate with few columns,
  // and more of them only move more memory: with 16 groups of 48 channels and 128 taps, blocks of 4
  // frames take less than half of the time of 16 for 500 frames, and about the same for 3,110.
  const int64_t max_columns = is_for_cuda(weight) ? 2'048 : 256;
  const int64_t largest = std::min(weight.size(2) / 8, max_columns / weight.size(1));
  int64_t block = 1;
  while (2 * block <= largest) block *= 2;
  return block;
}

at::Tensor GroupedConvolution::forward(const at::Tensor& x, const at::Tensor& weight,
                                       const Packing& packing, const Options& options) {
  return convolve(x, weight, Blocks(x, weight, packing, options), ConvolutionDirection::kForward);
}

at::Tensor GroupedConvolution::input_gradient(const at::Tensor& dy, const at::Tensor& weight,
                                              const Packing& packing, const Options& options) {
  return convolve(dy, weight, Blocks(dy, weight, packing, options),
                  ConvolutionDirection::kInputGradient);
}

void GroupedConvolution::accumulate(at::Tensor& grad_weight, const Ends& ends,
                                    const Packing& packing, const Options& options) {
  const Blocks blocks(ends.x, grad_weight, packing, options);
  const ConvolutionShape& shape = blocks.shape();
  check_rows(ends.dy, "dy");
  check_same(ends.x, ends.dy, "dy");
  SOTTO_ASSERT(grad_weight.scalar_type() == at::kFloat, "a gradient in {}",
               c10::toString(grad_weight.scalar_type()));
  const at::Tensor all_windows =
      make_workspace({blocks.at_once(), shape.matrix_rows()}, ends.x.options());
  const at::Tensor all_outputs =
      make_workspace({blocks.at_once(), shape.matrix_columns()}, ends.x.options());
  const int64_t before = frames_before(shape, ConvolutionDirection::kForward);
  for (int64_t group = 0; group < blocks.num_groups(); ++group) {
    at::Tensor matrix;  // fp32 [(S + K - 1) C, S C], the gradient
    blocks.for_each_chunk(group, [&](const Position& position, int64_t count) {
      const at::Tensor windows = all_windows.narrow(0, 0, count);
      const at::Tensor outputs = all_outputs.narrow(0, 0, count);
      gather_rows(blocks.rows_at(position, ends.x, windows, before));
      gather_rows(blocks.rows_at(position, ends.dy, outputs, 0));
      const device::CategoryScope category(device::Category::kWorkspace);
      const Gemm::Operands operands{.a = windows, .b = outputs, .transpose_a = true};
      if (matrix.defined()) {
        Gemm::accumulate(matrix, operands);
      } else {
        matrix = Gemm::multiply_to_float(operands);
      }
    });
    fold_matrix(matrix, group_of(grad_weight, group), shape);
  }
}

}  // namespace sotto::kernels
