// Attention on a GPU through ATen: FlashAttention for 16-bit types if the card supports it,
// otherwise efficient attention if that supports the shape. The choice, and what it allocates in
// addition to its results, depend only on shapes and target, so that the dry run can compute them.
// Internal to the kernel.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "sotto/device/target.h"
#include "sotto/kernels/attention/attention.h"
#include "sotto/kernels/attention/attention_shape.h"

namespace sotto::kernels::detail {

class LibraryAttention {
 public:
  // Returns whether one of the two supports the head size and the window; otherwise our own kernel
  // is used.
  static bool has(const AttentionShape& shape, at::ScalarType type, const device::Target& target);

  LibraryAttention(const AttentionShape& shape, at::ScalarType type, const device::Target& target);

  std::string_view name() const { return is_flash_ ? "flash attention" : "efficient attention"; }

  // Returns the head size that the library's kernel computes: the supported size to which it is
  // rounded up.
  int64_t computed_head_size() const;

  // Returns the ratio of the duration of backward to that of its arithmetic. Efficient attention
  // assigns each head of an utterance to one multiprocessor: if there are few, all wait for the
  // longest.
  double backward_slowdown() const;

  // Returns the shape of the logsumexp, fp32: [H, N] for FlashAttention; [B, H, longest] for
  // efficient attention, which pads it.
  std::vector<int64_t> softmax_sizes() const;

  // Returns a bound of what the call allocates in addition to y and softmax.
  int64_t forward_bytes() const;
  Attention::Result forward(const AttentionOperands& in) const;

  // Fills the gradients with copies of those that the call allocates, which the bound includes.
  int64_t backward_bytes() const;
  void backward(const AttentionBackward& in, const AttentionOperands& gradients) const;

  // Returns whether the call can write the gradients of self-attention as rows of dqkv itself,
  // without copies. The bound covers what it allocates in addition.
  bool makes_dqkv() const { return !is_flash_; }
  int64_t dqkv_bytes() const { return efficient_backward_bytes(); }
  at::Tensor make_dqkv(const AttentionBackward& in) const;

 private:
  struct Gradients {
    at::Tensor dq;
    at::Tensor dk;
    at::Tensor dv;
  };

  int64_t gradient_bytes() const;
  int64_t flash_backward_bytes() const;
  int64_t efficient_backward_bytes() const;
  Gradients flash_backward(const AttentionBackward& in) const;
  Gradients efficient_backward(const AttentionBackward& in, bool in_one_storage) const;

  AttentionShape shape_;
  bool is_half_;
  bool is_flash_;
  device::Target target_;
};

}  // namespace sotto::kernels::detail
