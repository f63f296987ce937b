// Attention over a pack of mixed lengths against ATen's flash attention, an utterance at a time.
// For information.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "bench_data.h"
#include "sotto/kernels/attention/attention.h"
#include "topics.h"

namespace sotto::bench {

namespace {

using kernels::Attention;
using kernels::Packing;

constexpr int64_t kWidth = 256;
constexpr int64_t kHeads = 4;

struct AttentionData {
  AttentionData(const std::vector<int64_t>& lengths, at::ScalarType type)
      : packing(lengths, at::kCPU),
        qkv(random_values({packing.num_frames(), 3 * kWidth}, type)),
        dy(random_values({packing.num_frames(), kWidth}, type)) {}

  Packing packing;
  at::Tensor qkv;  // [N, 3 D]
  at::Tensor dy;   // [N, D]
};

void run_ours(const AttentionData& data) {
  constexpr Attention::Options kOptions{.num_heads = kHeads};
  const Attention::Result result = Attention::forward(data.qkv, data.packing, kOptions);
  keep(Attention::backward(
      {.dy = data.dy, .qkv = data.qkv, .y = result.y, .softmax = result.softmax}, data.packing,
      kOptions));
}

void run_theirs(const AttentionData& data) {
  for (int64_t u = 0; u < data.packing.num_utterances(); ++u) {
    const int64_t first = data.packing.starts()[static_cast<size_t>(u)];
    const int64_t frames = data.packing.lengths()[static_cast<size_t>(u)];
    const at::Tensor qkv = data.qkv.narrow(0, first, frames)
                               .view({1, frames, 3, kHeads, -1})
                               .permute({2, 0, 3, 1, 4});  // [3, 1, H, T, D / H]
    const at::Tensor dy =
        data.dy.narrow(0, first, frames).view({1, frames, kHeads, -1}).transpose(1, 2);
    const auto [y, logsumexp] =
        at::_scaled_dot_product_flash_attention_for_cpu(qkv[0], qkv[1], qkv[2]);
    const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        dy, qkv[0], qkv[1], qkv[2], y, logsumexp, /*dropout_p=*/0.0, /*is_causal=*/false);
    keep(dq);
    keep(dv);
  }
}

Sides attention(const std::vector<int64_t>& lengths, at::ScalarType type) {
  const auto data = std::make_shared<AttentionData>(lengths, type);
  return in_one_arena(
      {.ours = [data] { run_ours(*data); }, .theirs = [data] { run_theirs(*data); }});
}

}  // namespace

std::vector<Pair> attention_pairs() {
  const std::vector<int64_t> mixed = {420, 310, 260, 205, 130, 95, 60, 20};
  std::vector<Pair> pairs;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    pairs.push_back({.topic = "attention",
                     .shape = fmt::format("{}_4x64_mixed_1500", short_name(type)),
                     .make = [mixed, type] { return attention(mixed, type); }});
    pairs.push_back({.topic = "attention",
                     .shape = fmt::format("{}_4x64_one_of_1500", short_name(type)),
                     .make = [type] { return attention({1500}, type); }});
  }
  return pairs;
}

}  // namespace sotto::bench
