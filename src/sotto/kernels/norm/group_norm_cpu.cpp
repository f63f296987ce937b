#include <array>
#include <cmath>

#include "sotto/kernels/norm/group_norm.h"
#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/simd.h"

namespace sotto::kernels::detail {

namespace {

using simd::Lanes;

// Vectors run over channels, which are adjacent; time runs over rows. The number of channels of a
// piece is chosen so that its frames stay in the cache between passes over them.
constexpr int64_t kPieceChannels = 128;
constexpr int64_t kFramesAtOnce = 8;
template <class T>
using ForPiece = std::array<T, kPieceChannels>;

// Some groups in the frames of one utterance: the unit of work of one core. Either whole groups
// that fill a piece, or one group of several pieces.
struct Patch {
  int64_t utterance;
  int64_t first_frame;
  int64_t num_frames;
  int64_t first_group;
  int64_t num_groups;
  int64_t group_channels;

  double group_size() const { return static_cast<double>(num_frames * group_channels); }
  int64_t first_channel() const { return first_group * group_channels; }
};

struct Piece {
  const Patch& patch;
  int64_t first_channel;
  int64_t num_channels;

  // Returns the group of the piece's channel c, counted from the patch's first.
  int64_t group_of(int64_t c) const {
    return (first_channel + c) / patch.group_channels - patch.first_group;
  }
};

template <class Body>
void for_each_patch(const Packing& packing, int64_t width, int64_t num_groups, Body body) {
  const int64_t channels = width / num_groups;
  const int64_t groups = std::max<int64_t>(1, kPieceChannels / channels);  // per patch
  const int64_t patches = (num_groups + groups - 1) / groups;              // per utterance
  at::parallel_for(0, packing.num_utterances() * patches, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t utterance = i / patches;
      const int64_t group = i % patches * groups;
      body(Patch{.utterance = utterance,
                 .first_frame = packing.starts()[static_cast<size_t>(utterance)],
                 .num_frames = packing.lengths()[static_cast<size_t>(utterance)],
                 .first_group = group,
                 .num_groups = std::min(groups, num_groups - group),
                 .group_channels = channels});
    }
  });
}

template <class Body>
void for_each_piece(const Patch& patch, Body body) {
  const int64_t end = patch.first_channel() + patch.num_groups * patch.group_channels;
  for (int64_t first = patch.first_channel(); first < end; first += kPieceChannels) {
    body(Piece{.patch = patch,
               .first_channel = first,
               .num_channels = std::min(kPieceChannels, end - first)});
  }
}

// Calls body(c, n, first, stop) for every block of channels c of a piece and every few rows from
// `first` to `stop`: rows in the inner loop, so that values of channels are loaded once for them.
template <class Body>
[[gnu::always_inline]] inline void for_each_block_of(const Piece& piece, Body body) {
  const int64_t end = piece.patch.first_frame + piece.patch.num_frames;
  for (int64_t first = piece.patch.first_frame; first < end; first += kFramesAtOnce) {
    const int64_t stop = std::min(end, first + kFramesAtOnce);
    simd::for_each_block(piece.num_channels, [&](int64_t c, auto n) { body(c, n, first, stop); });
  }
}

// Returns values of the channels of a piece from those of their groups.
template <class F>
ForPiece<float> by_channel(const Piece& piece, F value_of_group) {
  ForPiece<float> values = {};
  for (int64_t c = 0; c < piece.num_channels; ++c) {
    values[static_cast<size_t>(c)] = value_of_group(piece.group_of(c));
  }
  return values;
}

// One value for each group of a patch, in double.
class GroupTotals {
 public:
  explicit GroupTotals(const Patch& patch) : patch_(patch) {}

  // Adds weights[c] * sums[c] for each channel of a piece to its group's total.
  void add(const Piece& piece, const ForPiece<double>& sums, const float* weights = nullptr) {
    for (int64_t c = 0; c < piece.num_channels; ++c) {
      const double weight = weights == nullptr ? 1.0 : weights[c];
      totals_[static_cast<size_t>(piece.group_of(c))] += weight * sums[static_cast<size_t>(c)];
    }
  }

  double mean(int64_t group) const {
    return totals_[static_cast<size_t>(group)] / patch_.group_size();
  }

 private:
  Patch patch_;
  ForPiece<double> totals_ = {};
};

// The statistics of a patch's groups, and their values per channel of a piece.
struct Statistics {
  const float* mean;
  const float* rstd;

  ForPiece<float> means(const Piece& piece) const {
    return by_channel(piece, [&](int64_t group) { return mean[group]; });
  }
  ForPiece<float> rstds(const Piece& piece) const {
    return by_channel(piece, [&](int64_t group) { return rstd[group]; });
  }
};

// Sums over a few frames are computed in fp32, the sums of these in double: an utterance has up to
// half a million frames before the first subsampling, and fp32 would lose digits.
template <class T>
ForPiece<double> sums_of(const T* x, int64_t width, const Piece& piece) {
  ForPiece<double> sums = {};
  for_each_block_of(piece, [&](int64_t c, auto n, int64_t first, int64_t stop) {
    Lanes part;
    for (int64_t row = first; row < stop; ++row) {
      simd::prefetch(x + (row + kFramesAtOnce) * width + piece.first_channel + c);
      part += simd::load(x + row * width + piece.first_channel + c, n);
    }
    simd::add_to(&sums[c], part);
  });
  return sums;
}

template <class T>
ForPiece<double> squares_of(const T* x, int64_t width, const Piece& piece,
                            const ForPiece<float>& means) {
  ForPiece<double> sums = {};
  for_each_block_of(piece, [&](int64_t c, auto n, int64_t first, int64_t stop) {
    const Lanes mean = simd::load(&means[c], n);
    Lanes part;
    for (int64_t row = first; row < stop; ++row) {
      simd::prefetch(x + (row + kFramesAtOnce) * width + piece.first_channel + c);
      const Lanes centred = simd::load(x + row * width + piece.first_channel + c, n) - mean;
      part += centred * centred;
    }
    simd::add_to(&sums[c], part);
  });
  return sums;
}

// Passed by value: through a reference the compiler would read it again after each store.
template <class T>
struct Forward {
  const T* x;
  T* y;
  const float* gamma;
  const float* beta;
  int64_t width;
  double epsilon;
};

template <class T>
void write_y(Forward<T> in, const Piece& piece, const Statistics& statistics) {
  const ForPiece<float> means = statistics.means(piece);
  const ForPiece<float> rstds = statistics.rstds(piece);
  for_each_block_of(piece, [&](int64_t c, auto n, int64_t first, int64_t stop) {
    const int64_t channel = piece.first_channel + c;
    const Lanes mean = simd::load(&means[c], n);
    const Lanes scale = simd::load(&rstds[c], n) * simd::load(in.gamma + channel, n);
    const Lanes shift = simd::load(in.beta + channel, n);
    for (int64_t row = first; row < stop; ++row) {
      const int64_t at = row * in.width + channel;
      simd::prefetch(in.x + at + kFramesAtOnce * in.width);
      simd::store(in.y + at, (simd::load(in.x + at, n) - mean) * scale + shift, n);
    }
  });
}

template <class T>
void forward_patch(const Forward<T>& in, const Patch& patch, float* mean, float* rstd) {
  const Statistics statistics{.mean = mean, .rstd = rstd};
  GroupTotals values(patch);
  for_each_piece(patch,
                 [&](const Piece& piece) { values.add(piece, sums_of(in.x, in.width, piece)); });
  for (int64_t g = 0; g < patch.num_groups; ++g) {
    mean[g] = static_cast<float>(values.mean(g));
  }
  GroupTotals squares(patch);
  for_each_piece(patch, [&](const Piece& piece) {
    const ForPiece<float> means = statistics.means(piece);
    squares.add(piece, squares_of(in.x, in.width, piece, means));
  });
  for (int64_t g = 0; g < patch.num_groups; ++g) {
    rstd[g] = static_cast<float>(1.0 / std::sqrt(squares.mean(g) + in.epsilon));
  }
  for_each_piece(patch, [&](const Piece& piece) { write_y(in, piece, statistics); });
}

template <class T>
struct Backward {
  const T* dy;
  const T* x;
  T* dx;
  const float* gamma;
  int64_t width;
};

// Sums over frames, for each channel of a piece.
struct BackwardSums {
  ForPiece<double> dy = {};
  ForPiece<double> dy_x_hat = {};
};

template <class T>
BackwardSums backward_sums(Backward<T> in, const Piece& piece, const Statistics& statistics) {
  const ForPiece<float> means = statistics.means(piece);
  const ForPiece<float> rstds = statistics.rstds(piece);
  BackwardSums sums;
  for_each_block_of(piece, [&](int64_t c, auto n, int64_t first, int64_t stop) {
    const Lanes mean = simd::load(&means[c], n);
    Lanes dy_part;
    Lanes dy_x_part;
    for (int64_t row = first; row < stop; ++row) {
      const int64_t at = row * in.width + piece.first_channel + c;
      simd::prefetch(in.x + at + kFramesAtOnce * in.width);
      simd::prefetch(in.dy + at + kFramesAtOnce * in.width);
      const Lanes dy = simd::load(in.dy + at, n);
      dy_part += dy;
      dy_x_part += dy * (simd::load(in.x + at, n) - mean);
    }
    simd::add_to(&sums.dy[c], dy_part);
    simd::add_to(&sums.dy_x_hat[c], dy_x_part * simd::load(&rstds[c], n));
  });
  return sums;
}

// Sums over a group: of g = dy gamma, and of g x_hat.
struct BackwardTotals {
  GroupTotals g;
  GroupTotals g_x_hat;
};

template <class T>
void write_dx(Backward<T> in, const Piece& piece, const Statistics& statistics,
              const BackwardTotals& totals) {
  const ForPiece<float> means = statistics.means(piece);
  const ForPiece<float> rstds = statistics.rstds(piece);
  const auto g_means = by_channel(piece, [&](int64_t group) { return totals.g.mean(group); });
  const auto g_x_means =
      by_channel(piece, [&](int64_t group) { return totals.g_x_hat.mean(group); });
  for_each_block_of(piece, [&](int64_t c, auto n, int64_t first, int64_t stop) {
    const int64_t channel = piece.first_channel + c;
    const Lanes mean = simd::load(&means[c], n);
    const Lanes rstd = simd::load(&rstds[c], n);
    const Lanes gamma = simd::load(in.gamma + channel, n);
    const Lanes g_mean = simd::load(&g_means[c], n);
    const Lanes slope = simd::load(&g_x_means[c], n) * rstd;
    for (int64_t row = first; row < stop; ++row) {
      const int64_t at = row * in.width + channel;
      simd::prefetch(in.x + at + kFramesAtOnce * in.width);
      simd::prefetch(in.dy + at + kFramesAtOnce * in.width);
      const Lanes centred = simd::load(in.x + at, n) - mean;
      const Lanes dx = (simd::load(in.dy + at, n) * gamma - g_mean - centred * slope) * rstd;
      simd::store(in.dx + at, dx, n);
    }
  });
}

// `sums_of_utterance` [2, D] receives those of the patch's channels: for gamma, then for beta.
template <class T>
void backward_patch(const Backward<T>& in, const Patch& patch, const Statistics& statistics,
                    float* sums_of_utterance) {
  float* gamma_sum = sums_of_utterance;
  float* beta_sum = gamma_sum + in.width;
  BackwardTotals totals{.g = GroupTotals(patch), .g_x_hat = GroupTotals(patch)};
  for_each_piece(patch, [&](const Piece& piece) {
    const BackwardSums sums = backward_sums(in, piece, statistics);
    std::copy_n(sums.dy_x_hat.begin(), piece.num_channels, gamma_sum + piece.first_channel);
    std::copy_n(sums.dy.begin(), piece.num_channels, beta_sum + piece.first_channel);
    totals.g.add(piece, sums.dy, in.gamma + piece.first_channel);
    totals.g_x_hat.add(piece, sums.dy_x_hat, in.gamma + piece.first_channel);
  });
  for_each_piece(patch, [&](const Piece& piece) { write_dx(in, piece, statistics, totals); });
}

}  // namespace

void group_norm_forward_cpu(const at::Tensor& x, const Packing& packing,
                            const GroupNorm::Parameters& parameters,
                            const GroupNorm::Result& result) {
  const int64_t groups = parameters.num_groups;
  float* means = result.mean.mutable_data_ptr<float>();
  float* rstds = result.rstd.mutable_data_ptr<float>();
  with_element_type(x, [&](auto zero) {
    using T = decltype(zero);
    const Forward<T> forward{.x = x.const_data_ptr<T>(),
                             .y = result.y.mutable_data_ptr<T>(),
                             .gamma = parameters.gamma.const_data_ptr<float>(),
                             .beta = parameters.beta.const_data_ptr<float>(),
                             .width = x.size(1),
                             .epsilon = parameters.epsilon};
    for_each_patch(packing, x.size(1), groups, [&](const Patch& patch) {
      const int64_t first = patch.utterance * groups + patch.first_group;
      forward_patch(forward, patch, means + first, rstds + first);
    });
  });
}

void group_norm_backward_cpu(const GroupNorm::BackwardInputs& in, const Packing& packing,
                             const at::Tensor& dx, const at::Tensor& partial) {
  const int64_t width = in.x.size(1);
  const int64_t groups = in.mean.size(1);
  const float* means = in.mean.const_data_ptr<float>();
  const float* rstds = in.rstd.const_data_ptr<float>();
  with_element_type(in.x, [&](auto zero) {
    using T = decltype(zero);
    const Backward<T> backward{.dy = in.dy.const_data_ptr<T>(),
                               .x = in.x.const_data_ptr<T>(),
                               .dx = dx.mutable_data_ptr<T>(),
                               .gamma = in.gamma.const_data_ptr<float>(),
                               .width = width};
    for_each_patch(packing, width, groups, [&](const Patch& patch) {
      const int64_t first = patch.utterance * groups + patch.first_group;
      float* sums = partial.mutable_data_ptr<float>() + patch.utterance * 2 * width;
      const Statistics statistics{.mean = means + first, .rstd = rstds + first};
      backward_patch(backward, patch, statistics, sums);
    });
  });
}

void group_norm_add_gradients_cpu(const at::Tensor& partial,
                                  const GroupNorm::Gradients& gradients) {
  add_slabs(partial.const_data_ptr<float>(),
            {gradients.gamma.mutable_data_ptr<float>(), gradients.beta.mutable_data_ptr<float>()},
            partial.size(0), partial.size(2));
}

}  // namespace sotto::kernels::detail
