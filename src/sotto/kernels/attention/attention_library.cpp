#include "sotto/kernels/attention/attention_library.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "sotto/device/placement.h"

namespace sotto::kernels::detail {

namespace {

using device::Placement;

// Both libraries return a seed and an offset of unused random numbers, and allocate other small
// tensors.
constexpr int64_t kSmallBytes = 8 * Placement::kAlignment;
constexpr int64_t kFloatBytes = sizeof(float);
constexpr int64_t kHalfBytes = 2;

int64_t rounded_up(int64_t value, int64_t step) {
  return (value + step - 1) / step * step;
}

// A window that covers the longest utterance has no effect.
bool is_open(int64_t reach, const AttentionShape& shape) {
  return reach >= shape.max_length() - 1;
}

// Returns a view [N, H, D / H] of [N, D].
at::Tensor as_heads(const at::Tensor& rows, const AttentionShape& shape) {
  return rows.view({rows.size(0), shape.num_heads, shape.head_size});
}

at::Tensor as_heads(const HeadColumns& x, const AttentionShape& shape) {
  return as_heads(x.rows.narrow(1, x.first_column, shape.width()), shape);
}

// Efficient attention's mask type, and the number of keys up to its own that a query sees.
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

// Requires rows aligned to 16 bytes, and no key after the query unless all keys are seen.
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

// Efficient attention has kernels for 64 and 128, and one for all larger sizes.
int64_t LibraryAttention::computed_head_size() const {
  const int64_t size = shape_.head_size;
  if (is_flash_) return flash_head_size(size);
  return size <= 128 ? rounded_up(size, 64) : size;
}

double LibraryAttention::backward_slowdown() const {
  if (is_flash_) return 1.0;
  double all = 0.0;
  double largest = 0.0;
  for (int64_t u = 0; u < shape_.num_utterances(); ++u) {
    const int64_t scores = shape_.num_queries_of(u) * shape_.num_keys_of(u);
    all += static_cast<double>(shape_.num_heads * scores);
    largest = std::max(largest, static_cast<double>(scores));
  }
  return std::max(1.0, static_cast<double>(target_.num_sms) * largest / all);
}

std::vector<int64_t> LibraryAttention::softmax_sizes() const {
  const Packing& queries = shape_.queries;
  if (is_flash_) return {shape_.num_heads, queries.num_frames()};
  constexpr int64_t kStep = 32;
  return {queries.num_utterances(), shape_.num_heads, rounded_up(queries.max_length(), kStep)};
}

int64_t LibraryAttention::forward_bytes() const {
  // Heads of more than 128 values do not fit into registers: their sums are stored in memory.
  const bool has_sums = !is_flash_ && is_half_ && shape_.head_size > 128;
  const int64_t sums = shape_.queries.num_frames() * shape_.width() * kFloatBytes;
  return kSmallBytes + (has_sums ? Placement::rounded(sums) : 0);
}

int64_t LibraryAttention::backward_bytes() const {
  return gradient_bytes() + (is_flash_ ? flash_backward_bytes() : efficient_backward_bytes());
}

// Bytes of dq, dk and dv.
int64_t LibraryAttention::gradient_bytes() const {
  const int64_t of_row = shape_.width() * (is_half_ ? kHalfBytes : kFloatBytes);
  return Placement::rounded(shape_.queries.num_frames() * of_row) +
         2 * Placement::rounded(shape_.keys.num_frames() * of_row);
}

// The sum of dq in fp32, with rounded-up heads, of every split; one value for each query and head.
// Queries are rounded up by 128 for each utterance.
int64_t LibraryAttention::flash_backward_bytes() const {
  const int64_t utterances = shape_.num_utterances();
  const int64_t rows = shape_.queries.num_frames() + 128 * utterances;
  const int64_t head_size = flash_head_size(shape_.head_size);
  const int64_t blocks = utterances * shape_.num_heads;
  const int64_t splits =
      target_.is_deterministic ? (target_.num_sms + blocks - 1) / blocks : int64_t{1};
  return Placement::rounded(splits * rows * shape_.num_heads * head_size * kFloatBytes) +
         Placement::rounded(rows * shape_.num_heads * kFloatBytes) + kSmallBytes;
}

// fp32: the product of y and dy, and twice its sum over heads. 16 bits: that sum once. Sums of dq,
// dk and dv in fp32, with every utterance padded to the longest.
int64_t LibraryAttention::efficient_backward_bytes() const {
  const int64_t queries = shape_.queries.num_frames();
  const int64_t delta = Placement::rounded(queries * shape_.num_heads * kFloatBytes);
  const int64_t rows =
      rounded_up(shape_.queries.max_length(), 128) + 2 * rounded_up(shape_.keys.max_length(), 128);
  const int64_t of_head = rows * rounded_up(shape_.head_size, 128) * kFloatBytes;
  const int64_t sums = Placement::rounded(shape_.num_utterances() * shape_.num_heads * of_head);
  if (is_half_) return delta + sums + kSmallBytes;
  const int64_t product = Placement::rounded(queries * shape_.width() * kFloatBytes);
  return product + 2 * delta + sums + kSmallBytes;
}

Attention::Result LibraryAttention::forward(const AttentionOperands& in) const {
  const Packing& queries = shape_.queries;
  const Packing& keys = shape_.keys;
  const at::Tensor q = as_heads(in.q, shape_);
  const at::Tensor k = as_heads(in.k, shape_);
  const at::Tensor v = as_heads(in.v, shape_);
  const std::vector<int64_t> y_sizes = {queries.num_frames(), shape_.width()};
  if (is_flash_) {
    const auto [y, softmax, seed, unused, mask] = at::_flash_attention_forward(
        q, k, v, queries.device_starts(), keys.device_starts(), queries.max_length(),
        keys.max_length(), /*dropout_p=*/0.0, /*is_causal=*/false, /*return_debug_mask=*/false,
        /*scale=*/std::optional<double>(),
        /*window_size_left=*/is_open(shape_.left, shape_) ? -1 : shape_.left,
        /*window_size_right=*/is_open(shape_.right, shape_) ? -1 : shape_.right);
    return {.y = y.view(y_sizes), .softmax = softmax};
  }
  const CausalMask mask = causal_mask(shape_);
  const auto [y, softmax, seed, offset, max_q, max_k] = at::_efficient_attention_forward(
      q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), /*bias=*/{}, queries.device_starts(),
      keys.device_starts(), queries.max_length(), keys.max_length(), /*dropout_p=*/0.0, mask.type,
      /*compute_log_sumexp=*/true, /*scale=*/{}, /*seqlen_k=*/{}, mask.window);
  return {.y = y.view(y_sizes), .softmax = softmax};
}

void LibraryAttention::backward(const AttentionBackward& in,
                                const AttentionOperands& gradients) const {
  const auto [dq, dk, dv] =
      is_flash_ ? flash_backward(in) : efficient_backward(in, /*in_one_storage=*/false);
  as_heads(gradients.q, shape_).copy_(dq);
  as_heads(gradients.k, shape_).copy_(dk);
  as_heads(gradients.v, shape_).copy_(dv);
}

at::Tensor LibraryAttention::make_dqkv(const AttentionBackward& in) const {
  const Gradients gradients = efficient_backward(in, /*in_one_storage=*/true);
  const int64_t columns = 3 * shape_.width();
  return gradients.dq.as_strided({in.dy.size(0), columns}, {columns, 1});
}

LibraryAttention::Gradients LibraryAttention::flash_backward(const AttentionBackward& in) const {
  const Packing& queries = shape_.queries;
  const Packing& keys = shape_.keys;
  // Without dropout no random numbers are drawn: the seed is not read.
  const at::Tensor seed = at::empty({2}, in.dy.options().dtype(at::kUInt64));
  const auto [dq, dk, dv] = at::_flash_attention_backward(
      as_heads(in.dy, shape_), as_heads(in.in.q, shape_), as_heads(in.in.k, shape_),
      as_heads(in.in.v, shape_), as_heads(in.y, shape_), in.softmax, queries.device_starts(),
      keys.device_starts(), queries.max_length(), keys.max_length(), /*dropout_p=*/0.0,
      /*is_causal=*/false, seed, /*unused=*/seed, /*scale=*/std::optional<double>(),
      /*window_size_left=*/is_open(shape_.left, shape_) ? -1 : shape_.left,
      /*window_size_right=*/is_open(shape_.right, shape_) ? -1 : shape_.right);
  return {.dq = dq, .dk = dk, .dv = dv};
}

// Uses one split of the keys, so that sums have a fixed order. The gradients share one storage,
// laid out like rows of qkv.
LibraryAttention::Gradients LibraryAttention::efficient_backward(const AttentionBackward& in,
                                                                 bool in_one_storage) const {
  const Packing& queries = shape_.queries;
  const Packing& keys = shape_.keys;
  const at::Tensor seed = at::empty({}, in.dy.options().dtype(at::kLong));
  const CausalMask mask = causal_mask(shape_);
  const auto [dq, dk, dv, d_bias] = at::_efficient_attention_backward(
      as_heads(in.dy, shape_).unsqueeze(0), as_heads(in.in.q, shape_).unsqueeze(0),
      as_heads(in.in.k, shape_).unsqueeze(0), as_heads(in.in.v, shape_).unsqueeze(0), /*bias=*/{},
      as_heads(in.y, shape_).unsqueeze(0), queries.device_starts(), keys.device_starts(),
      queries.max_length(), keys.max_length(), in.softmax, /*dropout_p=*/0.0, seed, seed, mask.type,
      /*with_gradient_of_bias=*/false, /*scale=*/{}, /*num_splits_key=*/1, mask.window,
      /*shared_storage_dqdkdv=*/in_one_storage);
  return {.dq = dq.squeeze(0), .dk = dk.squeeze(0), .dv = dv.squeeze(0)};
}

}  // namespace sotto::kernels::detail
