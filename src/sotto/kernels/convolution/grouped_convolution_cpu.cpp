#include <algorithm>
#include <array>
#include <cstring>

#include "sotto/kernels/convolution/convolution_blocks.h"
#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/simd.h"

namespace sotto::kernels::detail {

namespace {

// The frames of a block's row that are in its utterance: at least one, the block's first.
struct RowFrames {
  int64_t first_row;  // row in the pack of the first of them
  int64_t first;      // index in the row of the first of them
  int64_t end;
};

// Calls body(row, frames) for the rows of blocks, on all cores.
template <class Body>
void for_each_block(const BlockRows& in, Body body) {
  const int64_t num_frames = in.rows.size(1) / in.shape.channels;
  const std::vector<int64_t>& starts = in.blocks.starts();
  parallel_rows(in.rows.size(0), in.rows.size(1), [&](int64_t begin, int64_t end) {
    int64_t u = in.blocks.utterance_of(in.first_block + begin);
    for (int64_t row = begin; row < end; ++row) {
      const int64_t block = in.first_block + row;
      while (block >= starts[static_cast<size_t>(u) + 1]) ++u;
      const auto utterance = static_cast<size_t>(u);
      const int64_t seen = (block - starts[utterance]) * in.shape.block - in.before;
      const int64_t first = std::max<int64_t>(0, -seen);
      body(row, RowFrames{.first_row = in.packing.starts()[utterance] + seen + first,
                          .first = first,
                          .end = std::min(num_frames, in.packing.lengths()[utterance] - seen)});
    }
  });
}

// Bytes of the group's channels in a frame and in a row.
struct Bytes {
  explicit Bytes(const BlockRows& in)
      : element(static_cast<int64_t>(in.frames.itemsize())),
        channels(in.shape.channels * element),
        frame(in.shape.width * element),
        row(in.rows.size(1) * element),
        first_channel(in.first_channel * element) {}

  int64_t element, channels, frame, row, first_channel;
};

// Taps and channels that are accumulated at once: the partial sums of the matrix's gradient before
// they are transposed to the weight's order.
constexpr int64_t kTapsAtOnce = 16;
constexpr int64_t kChannelsAtOnce = 64;
using FoldedTaps = std::array<std::array<float, kChannelsAtOnce>, kTapsAtOnce>;

// Unit of folding: for one input channel, some taps to some output channels.
struct FoldPiece {
  int64_t read;
  int64_t first_tap, num_taps;
  int64_t first_written, num_written;
};

// A tap's sum runs over the frames of a block in ascending order, whose elements are on a diagonal;
// rows are read in order.
void fold_piece(const float* matrix, const ConvolutionShape& shape, const FoldPiece& piece,
                FoldedTaps& folded) {
  for (auto& tap : folded) tap.fill(0.0f);
  const int64_t last_tap = piece.first_tap + piece.num_taps - 1;
  for (int64_t seen = piece.first_tap; seen < last_tap + shape.block; ++seen) {
    const float* row = matrix + (seen * shape.channels + piece.read) * shape.matrix_columns();
    const int64_t first_frame = std::max<int64_t>(0, seen - last_tap);
    const int64_t last_frame = std::min(shape.block - 1, seen - piece.first_tap);
    for (int64_t frame = first_frame; frame <= last_frame; ++frame) {
      const float* from = row + frame * shape.channels + piece.first_written;
      float* to = folded[static_cast<size_t>(seen - frame - piece.first_tap)].data();
      simd::for_each_block(piece.num_written, [&](int64_t i, auto n) {
        simd::store(to + i, simd::load(to + i, n) + simd::load(from + i, n), n);
      });
    }
  }
}

void add_piece(const FoldedTaps& folded, const ConvolutionShape& shape, const FoldPiece& piece,
               float* grad_weight) {
  for (int64_t i = 0; i < piece.num_written; ++i) {
    const int64_t written = piece.first_written + i;
    float* to =
        grad_weight + (written * shape.channels + piece.read) * shape.taps + piece.first_tap;
    for (int64_t tap = 0; tap < piece.num_taps; ++tap)
      to[tap] += folded[static_cast<size_t>(tap)][static_cast<size_t>(i)];
  }
}

}  // namespace

void convolution_order_cpu(const at::Tensor& weight, const at::Tensor& taps,
                           const TapSource& source) {
  const ConvolutionShape& shape = source.shape;
  const int64_t positions = shape.padded_taps();
  with_element_type(weight, [&](auto zero) {
    using T = decltype(zero);
    const T* from = weight.const_data_ptr<T>();
    T* to = taps.mutable_data_ptr<T>();
    parallel_rows(shape.channels, positions * shape.channels, [&](int64_t begin, int64_t end) {
      for (int64_t read = begin; read < end; ++read) {
        T* of_channel = to + read * positions * shape.channels;
        std::memset(of_channel, 0, static_cast<size_t>(positions * shape.channels) * sizeof(T));
        for (int64_t written = 0; written < shape.channels; ++written) {
          const T* weights = from + source.first_weight(read, written);
          for (int64_t position = shape.block - 1; position < shape.block - 1 + shape.taps;
               ++position)
            of_channel[position * shape.channels + written] = weights[source.tap_at(position)];
        }
      }
    });
  });
}

void convolution_expand_cpu(const at::Tensor& taps, const at::Tensor& matrix,
                            const ConvolutionShape& shape) {
  const auto element = static_cast<int64_t>(matrix.itemsize());
  const int64_t row_bytes = shape.matrix_columns() * element;
  const auto* from = static_cast<const std::byte*>(taps.const_data_ptr());
  auto* to = static_cast<std::byte*>(matrix.mutable_data_ptr());
  parallel_rows(matrix.size(0), matrix.size(1), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t first = shape.row_in_taps(row / shape.channels, row % shape.channels);
      std::memcpy(to + row * row_bytes, from + first * element, static_cast<size_t>(row_bytes));
    }
  });
}

void convolution_gather_cpu(const BlockRows& in) {
  const Bytes bytes(in);
  const auto* frames = static_cast<const std::byte*>(in.frames.const_data_ptr());
  auto* rows = static_cast<std::byte*>(in.rows.mutable_data_ptr());
  for_each_block(in, [&](int64_t row, const RowFrames& inside) {
    std::byte* to = rows + row * bytes.row;
    const std::byte* from = frames + inside.first_row * bytes.frame + bytes.first_channel;
    std::memset(to, 0, static_cast<size_t>(inside.first * bytes.channels));
    for (int64_t frame = inside.first; frame < inside.end; ++frame, from += bytes.frame)
      std::memcpy(to + frame * bytes.channels, from, static_cast<size_t>(bytes.channels));
    const int64_t written = inside.end * bytes.channels;
    std::memset(to + written, 0, static_cast<size_t>(bytes.row - written));
  });
}

void convolution_scatter_cpu(const BlockRows& in) {
  const Bytes bytes(in);
  auto* frames = static_cast<std::byte*>(in.frames.mutable_data_ptr());
  const auto* rows = static_cast<const std::byte*>(in.rows.const_data_ptr());
  for_each_block(in, [&](int64_t row, const RowFrames& inside) {
    const std::byte* from = rows + row * bytes.row;
    std::byte* to = frames + inside.first_row * bytes.frame + bytes.first_channel;
    for (int64_t frame = inside.first; frame < inside.end; ++frame, to += bytes.frame)
      std::memcpy(to, from + frame * bytes.channels, static_cast<size_t>(bytes.channels));
  });
}

void convolution_fold_cpu(const at::Tensor& matrix, const at::Tensor& grad_weight,
                          const ConvolutionShape& shape) {
  const float* from = matrix.const_data_ptr<float>();
  float* to = grad_weight.mutable_data_ptr<float>();
  const int64_t pieces = (shape.taps + kTapsAtOnce - 1) / kTapsAtOnce;
  const int64_t piece_size = kTapsAtOnce * shape.matrix_columns();
  parallel_rows(shape.channels * pieces, piece_size, [&](int64_t begin, int64_t end) {
    FoldedTaps folded;
    for (int64_t i = begin; i < end; ++i) {
      FoldPiece piece{.read = i / pieces,
                      .first_tap = i % pieces * kTapsAtOnce,
                      .num_taps = 0,
                      .first_written = 0,
                      .num_written = 0};
      piece.num_taps = std::min(kTapsAtOnce, shape.taps - piece.first_tap);
      for (; piece.first_written < shape.channels; piece.first_written += kChannelsAtOnce) {
        piece.num_written = std::min(kChannelsAtOnce, shape.channels - piece.first_written);
        fold_piece(from, shape, piece, folded);
        add_piece(folded, shape, piece, to);
      }
    }
  });
}

}  // namespace sotto::kernels::detail
