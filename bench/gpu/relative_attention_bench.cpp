// gpu_relative_attention: attention with relative positions on a GPU in bf16, forward and backward,
// beside ATen's efficient attention with a materialised bias [B, H, T, T]. "bias given" is that
// attention alone, as if the bias cost nothing; "whole" also computes the bias from positions, and
// its gradient back to them, with one copy for the shift. Ratios above 1: ours is faster.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <tuple>
#include <vector>

#include "../program.h"
#include "sotto/device/run_device.h"
#include "sotto/kernels/attention/attention.h"
#include "sotto/report/table.h"
#include "timing.h"

namespace {

using namespace sotto;           // NOLINT: a program of one file
using namespace sotto::kernels;  // NOLINT

constexpr int64_t kHeads = 8;
constexpr int64_t kFrames = 24'000;

struct Shape {
  int64_t length;
  int64_t head_size;

  int64_t batch() const { return kFrames / length; }
  int64_t width() const { return kHeads * head_size; }
  int64_t num_positions() const { return 2 * length - 1; }
};

struct Seconds {
  double forward;
  double backward;
};

at::TensorOptions on_gpu() {
  return at::TensorOptions().device(at::kCUDA).dtype(at::kBFloat16);
}

Seconds time_ours(const Shape& shape) {
  const Packing packing(std::vector<int64_t>(static_cast<size_t>(shape.batch()), shape.length),
                        at::kCUDA);
  const at::Tensor qkv = at::randn({packing.num_frames(), 3 * shape.width()}, on_gpu());
  const at::Tensor dy = at::randn({packing.num_frames(), shape.width()}, on_gpu());
  const at::Tensor positions = at::randn({shape.num_positions(), shape.width()}, on_gpu());
  const at::Tensor bias = at::randn({shape.width()}, on_gpu().dtype(at::kFloat));
  at::Tensor d_content = at::zeros_like(bias), d_position = at::zeros_like(bias);
  Attention::Relative::Gradients gradients{.content_bias = d_content, .position_bias = d_position};
  const Attention::Relative relative{
      .positions = positions, .content_bias = bias, .position_bias = bias, .gradients = &gradients};
  const Attention::Options options{.num_heads = kHeads};
  const Attention::Result result = Attention::forward(qkv, packing, options, &relative);
  return {.forward =
              bench::seconds_of([&] { Attention::forward(qkv, packing, options, &relative); }, 5),
          .backward = bench::seconds_of(
              [&] {
                Attention::backward(
                    {.dy = dy, .qkv = qkv, .y = result.y, .softmax = result.softmax}, packing,
                    options, &relative);
              },
              5)};
}

// Efficient attention of q, k and v [B, H, T, D / H] with a bias [B, H, T, T].
struct Theirs {
  explicit Theirs(const Shape& of) : shape(of) {
    const auto heads = [&] {
      return at::randn({shape.batch(), shape.length, kHeads, shape.head_size}, on_gpu())
          .transpose(1, 2);
    };
    q = heads();
    k = heads();
    v = heads();
    dy = heads();
    positions = at::randn({kHeads, shape.num_positions(), shape.head_size}, on_gpu());
    bias = make_bias();
    result = attend(bias);
  }

  std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> attend(const at::Tensor& added) const {
    return at::_scaled_dot_product_efficient_attention(q, k, v, added, /*compute_log_sumexp=*/true);
  }

  std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> attend_backward() const {
    const auto& [y, logsumexp, seed, offset] = result;
    return at::_scaled_dot_product_efficient_attention_backward(
        dy, q, k, v, bias, y, logsumexp, seed, offset, /*dropout_p=*/0.0, {true, true, true, true});
  }

  // Query i and key j have the column T - 1 - i + j of [B, H, T, 2 T - 1]: a view of it.
  at::Tensor shifted(const at::Tensor& by_position) const {
    const int64_t columns = shape.num_positions();
    return by_position.as_strided(
        {shape.batch(), kHeads, shape.length, shape.length},
        {kHeads * shape.length * columns, shape.length * columns, columns - 1, 1},
        shape.length - 1);
  }

  at::Tensor make_bias() const {
    const at::Tensor by_position = at::matmul(q, positions.transpose(1, 2));
    return shifted(by_position).mul(1.0 / std::sqrt(static_cast<double>(shape.head_size)));
  }

  void whole_forward() const { attend(make_bias()); }

  void whole_backward() const {
    const at::Tensor d_bias = std::get<3>(attend_backward());
    const at::Tensor d_positions =
        at::zeros({shape.batch(), kHeads, shape.length, shape.num_positions()}, on_gpu());
    shifted(d_positions).copy_(d_bias);
    at::matmul(d_positions, positions);
    at::matmul(d_positions.transpose(2, 3), q).sum(0);
  }

  Shape shape;
  at::Tensor q, k, v, dy;
  at::Tensor positions;  // [H, 2 T - 1, D / H]
  at::Tensor bias;
  std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> result;
};

void add_rows(report::Table& table, const Shape& shape) {
  const Seconds ours = time_ours(shape);
  const Theirs theirs(shape);
  const auto add = [&](const char* pass, double seconds, double given, double whole) {
    table.add_row({fmt::format("{}x{}, d {}", shape.batch(), shape.length, shape.head_size), pass,
                   fmt::format("{:.3f}", seconds * 1e3), fmt::format("{:.3f}", given * 1e3),
                   fmt::format("{:.3f}", whole * 1e3), fmt::format("{:.2f}", given / seconds),
                   fmt::format("{:.2f}", whole / seconds)});
  };
  add("forward", ours.forward, bench::seconds_of([&] { theirs.attend(theirs.bias); }, 5),
      bench::seconds_of([&] { theirs.whole_forward(); }, 5));
  add("backward", ours.backward, bench::seconds_of([&] { theirs.attend_backward(); }, 5),
      bench::seconds_of([&] { theirs.whole_backward(); }, 5));
}

}  // namespace

int main() {
  return sotto::bench::report_errors("gpu_relative_attention", [] {
    const device::RunDevice device = device::open_device("cuda");
    const device::TargetScope target(device.target);
    report::Table table({{"utterances x frames"},
                         {"pass"},
                         {"ours, ms", report::Align::kRight},
                         {"bias given, ms", report::Align::kRight},
                         {"whole, ms", report::Align::kRight},
                         {"ratio, given", report::Align::kRight},
                         {"ratio, whole", report::Align::kRight}});
    // Multiples of 8: rows of a bias have to be aligned.
    for (const int64_t length : {200, 400, 752, 1000, 1504})
      add_rows(table, {.length = length, .head_size = 64});
    for (const int64_t head_size : {48, 128})
      add_rows(table, {.length = 752, .head_size = head_size});
    fmt::print("{}\n{}", device.name, table.to_string());
    return 0;
  });
}
