#include <cmath>
#include <vector>

#include "sotto/kernels/cpu_kernel.h"
#include "sotto/kernels/group_norm.h"
#include "sotto/kernels/simd.h"

namespace sotto::kernels::detail {

namespace {

using simd::Lanes;

// The channels of one group in the frames of one utterance: what one core works on.
struct Patch {
  int64_t utterance;
  int64_t group;
  int64_t first_frame;
  int64_t num_frames;
  int64_t first_channel;
  int64_t num_channels;

  double size() const { return static_cast<double>(num_frames * num_channels); }
};

template <class Body>
void for_each_patch(const Packing& packing, int64_t width, int64_t num_groups, Body body) {
  const int64_t channels = width / num_groups;
  at::parallel_for(0, packing.num_utterances() * num_groups, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t utterance = i / num_groups;
      const int64_t group = i % num_groups;
      body(Patch{.utterance = utterance,
                 .group = group,
                 .first_frame = packing.starts()[static_cast<size_t>(utterance)],
                 .num_frames = packing.lengths()[static_cast<size_t>(utterance)],
                 .first_channel = group * channels,
                 .num_channels = channels});
    }
  });
}

// Sum of f(element index, channel) over a patch. Frame by frame in fp32, over frames in double: an
// utterance has up to half a million frames before the first subsampling, and fp32 would lose
// digits.
template <class F>
double sum_over(const Patch& patch, int64_t width, F f) {
  double total = 0.0;
  for (int64_t frame = 0; frame < patch.num_frames; ++frame) {
    const int64_t row = (patch.first_frame + frame) * width + patch.first_channel;
    float part = 0.0f;
    for (int64_t c = 0; c < patch.num_channels; ++c) part += f(row + c, patch.first_channel + c);
    total += part;
  }
  return total;
}

}  // namespace

void group_norm_forward_cpu(const at::Tensor& x, const Packing& packing,
                            const GroupNorm::Parameters& parameters,
                            const GroupNorm::Result& result) {
  const int64_t width = x.size(1);
  const int64_t groups = parameters.num_groups;
  const float* gamma = parameters.gamma.const_data_ptr<float>();
  const float* beta = parameters.beta.const_data_ptr<float>();
  float* means = result.mean.mutable_data_ptr<float>();
  float* rstds = result.rstd.mutable_data_ptr<float>();
  with_element_type(x, [&](auto zero) {
    using T = decltype(zero);
    const T* in = x.const_data_ptr<T>();
    T* out = result.y.mutable_data_ptr<T>();
    for_each_patch(packing, width, groups, [&](const Patch& patch) {
      const auto value = [&](int64_t i) { return static_cast<float>(in[i]); };
      const double total = sum_over(patch, width, [&](int64_t i, int64_t) { return value(i); });
      const auto mean = static_cast<float>(total / patch.size());
      const double squares = sum_over(
          patch, width, [&](int64_t i, int64_t) { return (value(i) - mean) * (value(i) - mean); });
      const auto rstd =
          static_cast<float>(1.0 / std::sqrt(squares / patch.size() + parameters.epsilon));
      means[patch.utterance * groups + patch.group] = mean;
      rstds[patch.utterance * groups + patch.group] = rstd;
      for (int64_t frame = 0; frame < patch.num_frames; ++frame) {
        const int64_t row = (patch.first_frame + frame) * width;
        for (int64_t c = patch.first_channel; c < patch.first_channel + patch.num_channels; ++c) {
          out[row + c] = static_cast<T>((value(row + c) - mean) * rstd * gamma[c] + beta[c]);
        }
      }
    });
  });
}

void group_norm_backward_cpu(const GroupNorm::BackwardInputs& in, const Packing& packing,
                             const at::Tensor& dx, const at::Tensor& partial) {
  const int64_t width = in.x.size(1);
  const int64_t groups = in.mean.size(1);
  const float* gamma = in.gamma.const_data_ptr<float>();
  with_element_type(in.x, [&](auto zero) {
    using T = decltype(zero);
    const T* x = in.x.const_data_ptr<T>();
    const T* dy = in.dy.const_data_ptr<T>();
    T* out = dx.mutable_data_ptr<T>();
    for_each_patch(packing, width, groups, [&](const Patch& patch) {
      const float mean = in.mean.const_data_ptr<float>()[patch.utterance * groups + patch.group];
      const float rstd = in.rstd.const_data_ptr<float>()[patch.utterance * groups + patch.group];
      const auto x_hat = [&](int64_t i) { return (static_cast<float>(x[i]) - mean) * rstd; };
      const auto g = [&](int64_t i, int64_t c) { return static_cast<float>(dy[i]) * gamma[c]; };
      const auto mean_g = static_cast<float>(sum_over(patch, width, g) / patch.size());
      const auto mean_gx = static_cast<float>(
          sum_over(patch, width, [&](int64_t i, int64_t c) { return g(i, c) * x_hat(i); }) /
          patch.size());

      float* gamma_sum = partial.mutable_data_ptr<float>() + patch.utterance * 2 * width;
      float* beta_sum = gamma_sum + width;
      for (int64_t c = patch.first_channel; c < patch.first_channel + patch.num_channels; ++c) {
        double sum_dy = 0.0;
        double sum_dy_x = 0.0;
        for (int64_t frame = 0; frame < patch.num_frames; ++frame) {
          const int64_t i = (patch.first_frame + frame) * width + c;
          sum_dy += static_cast<float>(dy[i]);
          sum_dy_x += static_cast<float>(dy[i]) * x_hat(i);
          out[i] = static_cast<T>((g(i, c) - mean_g - x_hat(i) * mean_gx) * rstd);
        }
        gamma_sum[c] = static_cast<float>(sum_dy_x);
        beta_sum[c] = static_cast<float>(sum_dy);
      }
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
