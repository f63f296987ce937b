#include "sotto/kernels/attention/attention_library.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "sotto/device/placement.h"

namespace sotto::kernels::detail {

namespace {

using device::Placement;

// Both libraries return a seed and an offset of random numbers that they did not draw, and pass
// other small things around.
constexpr int64_t kSmallBytes = 8 * Placement::kAlignment;
constexpr int64_t kFloatBytes = sizeof(float);
constexpr int64_t kHalfBytes = 2;

int64_t rounded_up(int64_t value, int64_t step) {
  return (value + step - 1) / step * step;
}

// A window that reaches over the longest utterance is none.
bool is_open(int64_t reach, const AttentionShape& shape) {
  return reach >= shape.packing.max_length() - 1;
}

// q, k or v of each row, [N, H, D / H].
at::Tensor part_of(const at::Tensor& qkv, const AttentionShape& shape, int64_t part) {
  return qkv.view({qkv.size(0), 3, shape.num_heads, shape.head_size}).select(1, part);
}

at::Tensor as_heads(const at::Tensor& rows, const AttentionShape& shape) {
  return rows.view({rows.size(0), shape.num_heads, shape.head_size});
}

// What efficient attention calls its mask, and how many keys up to its own a query sees.
struct CausalMask {
  int64_t type = 0;
  std::optional<int64_t> window = std::nullopt;
};

CausalMask causal_mask(const AttentionShape& shape) {
  if (is_open(shape.left, shape) && is_open(shape.right, shape)) return {};
  constexpr int64_t kFromTheTopLeft = 1;
  if (is_open(shape.left, shape)) return {.type = kFromTheTopLeft};
  return {.type = kFromTheTopLeft, .window = shape.left + 1};
}

bool is_flash(const AttentionShape& shape, at::ScalarType type, const device::Target& target) {
  return type != at::kFloat && target.has_flash_attention() && shape.head_size % 8 == 0;
}

int64_t flash_head_size(int64_t size) {
  return rounded_up(size, size <= 128 ? 32 : 64);
}

// Rows of 16 bytes, and no key behind the query unless all keys are seen.
bool is_efficient(const AttentionShape& shape, at::ScalarType type) {
  if (shape.head_size % (type == at::kFloat ? 4 : 8) != 0) return false;
  return is_open(shape.right, shape) ? is_open(shape.left, shape) : shape.right == 0;
}

}  // namespace

LibraryAttention::LibraryAttention(const AttentionShape& shape, at::ScalarType type,
                                   const device::Target& target)
    : shape_(shape),
      is_half_(type != at::kFloat),
      is_flash_(is_flash(shape, type, target)),
      target_(target) {}

bool LibraryAttention::has(const AttentionShape& shape, at::ScalarType type,
                           const device::Target& target) {
  return is_flash(shape, type, target) || is_efficient(shape, type);
}

// Efficient attention has kernels for 64 and 128, and one for all above.
int64_t LibraryAttention::computed_head_size() const {
  const int64_t size = shape_.head_size;
  if (is_flash_) return flash_head_size(size);
  return size <= 128 ? rounded_up(size, 64) : size;
}

double LibraryAttention::backward_slowdown() const {
  if (is_flash_) return 1.0;
  double all = 0.0;
  for (const int64_t length : shape_.packing.lengths())
    all += static_cast<double>(shape_.num_heads * length * length);
  const auto longest = static_cast<double>(shape_.packing.max_length());
  return std::max(1.0, static_cast<double>(target_.num_sms) * longest * longest / all);
}

std::vector<int64_t> LibraryAttention::softmax_sizes() const {
  const Packing& packing = shape_.packing;
  if (is_flash_) return {shape_.num_heads, packing.num_frames()};
  constexpr int64_t kStep = 32;
  return {packing.num_utterances(), shape_.num_heads, rounded_up(packing.max_length(), kStep)};
}

int64_t LibraryAttention::forward_bytes() const {
  // Heads over 128 values do not fit into registers: their sums lie in memory.
  const bool has_sums = !is_flash_ && is_half_ && shape_.head_size > 128;
  const int64_t sums = shape_.packing.num_frames() * shape_.width() * kFloatBytes;
  return kSmallBytes + (has_sums ? Placement::rounded(sums) : 0);
}

int64_t LibraryAttention::backward_bytes() const {
  return is_flash_ ? flash_backward_bytes() : efficient_backward_bytes();
}

// dq, dk and dv; the sum of dq in fp32, with heads rounded up, of every split; a value for each row
// and head. Rows are rounded up by 128 for each utterance.
int64_t LibraryAttention::flash_backward_bytes() const {
  const Packing& packing = shape_.packing;
  const int64_t rows = packing.num_frames() + 128 * packing.num_utterances();
  const int64_t head_size = flash_head_size(shape_.head_size);
  const int64_t blocks = packing.num_utterances() * shape_.num_heads;
  const int64_t splits =
      target_.is_deterministic ? (target_.num_sms + blocks - 1) / blocks : int64_t{1};
  const int64_t gradient = packing.num_frames() * shape_.width() * kHalfBytes;
  return 3 * Placement::rounded(gradient) +
         Placement::rounded(splits * rows * shape_.num_heads * head_size * kFloatBytes) +
         Placement::rounded(rows * shape_.num_heads * kFloatBytes) + kSmallBytes;
}

// fp32: the product of y and dy, and its sum over heads twice. 16 bits: that sum once, and sums of
// dq, dk and dv in fp32, for every utterance as long as the longest.
int64_t LibraryAttention::efficient_backward_bytes() const {
  const Packing& packing = shape_.packing;
  const int64_t delta = Placement::rounded(packing.num_frames() * shape_.num_heads * kFloatBytes);
  const int64_t rows = rounded_up(packing.max_length(), 128);
  const int64_t of_head = 3 * rows * rounded_up(shape_.head_size, 128) * kFloatBytes;
  const int64_t sums = Placement::rounded(packing.num_utterances() * shape_.num_heads * of_head);
  if (is_half_) return delta + sums + kSmallBytes;
  const int64_t product = Placement::rounded(packing.num_frames() * shape_.width() * kFloatBytes);
  return product + 2 * delta + sums + kSmallBytes;
}

Attention::Result LibraryAttention::forward(const at::Tensor& qkv) const {
  const Packing& packing = shape_.packing;
  const at::Tensor& starts = packing.device_starts();
  const int64_t longest = packing.max_length();
  const at::Tensor q = part_of(qkv, shape_, 0);
  const at::Tensor k = part_of(qkv, shape_, 1);
  const at::Tensor v = part_of(qkv, shape_, 2);
  if (is_flash_) {
    const auto [y, softmax, seed, unused, mask] = at::_flash_attention_forward(
        q, k, v, starts, starts, longest, longest, /*dropout_p=*/0.0, /*is_causal=*/false,
        /*return_debug_mask=*/false, /*scale=*/std::optional<double>(),
        /*window_size_left=*/is_open(shape_.left, shape_) ? -1 : shape_.left,
        /*window_size_right=*/is_open(shape_.right, shape_) ? -1 : shape_.right);
    return {.y = y.view({qkv.size(0), shape_.width()}), .softmax = softmax};
  }
  const CausalMask mask = causal_mask(shape_);
  const auto [y, softmax, seed, offset, max_q, max_k] = at::_efficient_attention_forward(
      q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), /*bias=*/{}, starts, starts, longest, longest,
      /*dropout_p=*/0.0, mask.type, /*compute_log_sumexp=*/true, /*scale=*/{}, /*seqlen_k=*/{},
      mask.window);
  return {.y = y.view({qkv.size(0), shape_.width()}), .softmax = softmax};
}

at::Tensor LibraryAttention::backward(const Attention::BackwardInputs& in,
                                      const at::Tensor& dqkv) const {
  return is_flash_ ? flash_backward(in, dqkv) : efficient_backward(in);
}

at::Tensor LibraryAttention::flash_backward(const Attention::BackwardInputs& in,
                                            const at::Tensor& dqkv) const {
  const Packing& packing = shape_.packing;
  const at::Tensor& starts = packing.device_starts();
  const int64_t longest = packing.max_length();
  // Nothing is drawn without dropout: the seed is not read.
  const at::Tensor seed = at::empty({2}, in.qkv.options().dtype(at::kUInt64));
  const auto [dq, dk, dv] = at::_flash_attention_backward(
      as_heads(in.dy, shape_), part_of(in.qkv, shape_, 0), part_of(in.qkv, shape_, 1),
      part_of(in.qkv, shape_, 2), as_heads(in.y, shape_), in.softmax, starts, starts, longest,
      longest, /*dropout_p=*/0.0, /*is_causal=*/false, seed, /*unused=*/seed,
      /*scale=*/std::optional<double>(),
      /*window_size_left=*/is_open(shape_.left, shape_) ? -1 : shape_.left,
      /*window_size_right=*/is_open(shape_.right, shape_) ? -1 : shape_.right);
  part_of(dqkv, shape_, 0).copy_(dq);
  part_of(dqkv, shape_, 1).copy_(dk);
  part_of(dqkv, shape_, 2).copy_(dv);
  return dqkv;
}

at::Tensor LibraryAttention::efficient_backward(const Attention::BackwardInputs& in) const {
  const Packing& packing = shape_.packing;
  const at::Tensor& starts = packing.device_starts();
  const int64_t longest = packing.max_length();
  const at::Tensor seed = at::empty({}, in.qkv.options().dtype(at::kLong));
  const CausalMask mask = causal_mask(shape_);
  // One split of the keys, so that sums have one order; and one storage for all three gradients,
  // laid out as rows of qkv are.
  const auto [dq, dk, dv, d_bias] = at::_efficient_attention_backward(
      as_heads(in.dy, shape_).unsqueeze(0), part_of(in.qkv, shape_, 0).unsqueeze(0),
      part_of(in.qkv, shape_, 1).unsqueeze(0), part_of(in.qkv, shape_, 2).unsqueeze(0),
      /*bias=*/{}, as_heads(in.y, shape_).unsqueeze(0), starts, starts, longest, longest,
      in.softmax, /*dropout_p=*/0.0, seed, seed, mask.type, /*with_gradient_of_bias=*/false,
      /*scale=*/{}, /*num_splits_key=*/1, mask.window, /*shared_storage_dqdkdv=*/true);
  return dq.as_strided({in.qkv.size(0), in.qkv.size(1)}, {in.qkv.size(1), 1});
}

}  // namespace sotto::kernels::detail
