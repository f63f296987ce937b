// Plain attention by a library's batched products, as called by attention.cpp. Consecutive
// utterances of the same length share a call: a batch of equal rows takes as many calls as it has
// heads, not as it has utterances. Internal to the kernel.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "sotto/kernels/attention/attention.h"
#include "sotto/kernels/attention/attention_shape.h"

namespace sotto::kernels::detail {

// Consecutive utterances of the same length.
struct EqualUtterances {
  int64_t first = 0;
  int64_t count = 0;
  int64_t length = 0;
};

std::vector<EqualUtterances> equal_utterances(const AttentionShape& shape);

// Returns the number of scores that exist at the same time: of all utterances of a group for one
// head, or of all heads for one utterance, whichever are more.
int64_t plain_workspace_scores(const AttentionShape& shape);

// `scores`: workspace of plain_workspace_scores() values, fp32.
void attention_plain_forward_library(const at::Tensor& qkv, const AttentionShape& shape,
                                     const Attention::Result& result, const at::Tensor& scores);
void attention_plain_backward_library(const Attention::BackwardInputs& in,
                                      const AttentionShape& shape, const at::Tensor& dqkv,
                                      const at::Tensor& scores);

}  // namespace sotto::kernels::detail
