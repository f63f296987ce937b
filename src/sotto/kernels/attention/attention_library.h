// Attention on a GPU through ATen: FlashAttention for 16-bit types where the card has it, else
// efficient attention where that has the shape. Which of the two, and what it allocates besides its
// results, follows from shapes and target alone, so that the dry run knows it too. Internal to the
// kernel.
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
  // Whether one of the two has the head size and the window; else it is for a kernel of ours.
  static bool has(const AttentionShape& shape, at::ScalarType type, const device::Target& target);

  LibraryAttention(const AttentionShape& shape, at::ScalarType type, const device::Target& target);

  std::string_view name() const { return is_flash_ ? "flash attention" : "efficient attention"; }

  // Of the heads that the kernels have, the size that these are computed as.
  int64_t computed_head_size() const;

  // How many times as long as its arithmetic the backward takes. That of efficient attention gives
  // a head of an utterance to one multiprocessor: where there are few, all wait for the longest.
  double backward_slowdown() const;

  // Of the logsumexp, fp32: [H, N] of FlashAttention; [B, H, longest] of efficient attention, which
  // pads it.
  std::vector<int64_t> softmax_sizes() const;

  // A bound of what the call allocates besides y and softmax.
  int64_t forward_bytes() const;
  Attention::Result forward(const AttentionOperands& in) const;

  // Fills the gradients with copies of those that the call allocates, which are in the bound.
  int64_t backward_bytes() const;
  void backward(const AttentionBackward& in, const AttentionOperands& gradients) const;

  // Whether the call can lay out the gradients of self-attention as rows of dqkv itself, with
  // nothing to copy. The bound is of what it allocates besides.
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
