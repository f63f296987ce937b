#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/attention/attention_plain.h"
#include "sotto/kernels/attention/attention_task.h"
#include "sotto/kernels/base/kernel.h"

namespace sotto::kernels::detail {

SOTTO_CUDA_ENTRY void attention_plain_softmax_cuda(const CudaPlainScores& task, void* stream);
SOTTO_CUDA_ENTRY void attention_plain_gradient_cuda(const CudaPlainScores& task, void* stream);

namespace {

// What one batched product covers: one head of several utterances of the same length, or all heads
// of one utterance. B matrices, T frames, H heads.
struct Part {
  const AttentionShape& shape;
  EqualUtterances utterances;
  int64_t first_probability;  // of the first utterance
  int64_t head;               // kAllHeads: of one utterance

  static constexpr int64_t kAllHeads = -1;

  int64_t num_matrices() const { return head == kAllHeads ? shape.num_heads : utterances.count; }
  int64_t scores_per_utterance() const {
    return shape.num_heads * utterances.length * utterances.length;
  }

  // Returns [B, T, head size] of rows [N, D]; or of part 0, 1, 2 of rows [N, 3 D].
  at::Tensor heads(const at::Tensor& rows, int64_t which = 0) const {
    const at::Tensor by_head =
        rows.narrow(0, shape.first_query_of(utterances.first), utterances.count * utterances.length)
            .view({utterances.count, utterances.length, -1, shape.num_heads, shape.head_size})
            .select(2, which);
    return head == kAllHeads ? by_head.select(0, 0).transpose(0, 1) : by_head.select(2, head);
  }
  // Returns a view [B, T, T] of all scores of the pack.
  at::Tensor matrices(const at::Tensor& flat) const {
    const int64_t length = utterances.length;
    const at::Tensor by_head =
        flat.narrow(0, first_probability, utterances.count * scores_per_utterance())
            .view({utterances.count, shape.num_heads, length, length});
    return head == kAllHeads ? by_head.select(0, 0) : by_head.select(1, head);
  }
  // Returns [B, T, T] of the workspace.
  at::Tensor workspace(const at::Tensor& scores) const {
    const int64_t length = utterances.length;
    return scores.narrow(0, 0, num_matrices() * length * length)
        .view({num_matrices(), length, length});
  }
  CudaPlainScores task(const at::Tensor& scores, const at::Tensor& probabilities) const {
    const CudaArray array = cuda_array(probabilities);
    return {.scores = scores.mutable_data_ptr<float>(),
            .probabilities = array.data,
            .type = array.type,
            .num_matrices = num_matrices(),
            .stride = probabilities.stride(0),
            .length = utterances.length,
            .left = shape.left,
            .right = shape.right,
            .scale = 1.0f / std::sqrt(static_cast<float>(shape.head_size))};
  }
};

bool goes_by_head(const AttentionShape& shape, const EqualUtterances& utterances) {
  return utterances.count > shape.num_heads;
}

template <class Body>
void for_each_part(const AttentionShape& shape, Body body) {
  int64_t first = 0;
  for (const EqualUtterances& group : equal_utterances(shape)) {
    const int64_t scores = shape.num_heads * group.length * group.length;
    if (goes_by_head(shape, group)) {
      for (int64_t head = 0; head < shape.num_heads; ++head)
        body(Part{.shape = shape, .utterances = group, .first_probability = first, .head = head});
    } else {
      for (int64_t u = 0; u < group.count; ++u)
        body(Part{.shape = shape,
                  .utterances = {.first = group.first + u, .count = 1, .length = group.length},
                  .first_probability = first + u * scores,
                  .head = Part::kAllHeads});
    }
    first += group.count * scores;
  }
}

// Multiplies in fp32, regardless of the operands' type.
void multiply_to_float(at::Tensor& result, const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() == at::kFloat) {
    at::bmm_out(result, a, b);
  } else {
    at::bmm_out(result, a, b, at::kFloat);
  }
}

void multiply_into(at::Tensor result, const at::Tensor& a, const at::Tensor& b) {
  at::bmm_out(result, a, b);
}

}  // namespace

std::vector<EqualUtterances> equal_utterances(const AttentionShape& shape) {
  std::vector<EqualUtterances> groups;
  for (int64_t u = 0; u < shape.num_utterances(); ++u) {
    const int64_t length = shape.num_queries_of(u);
    if (groups.empty() || groups.back().length != length)
      groups.push_back({.first = u, .count = 0, .length = length});
    ++groups.back().count;
  }
  return groups;
}

int64_t plain_workspace_scores(const AttentionShape& shape) {
  int64_t most = 0;
  for (const EqualUtterances& group : equal_utterances(shape))
    most = std::max(most, std::max(group.count, shape.num_heads) * group.length * group.length);
  return most;
}

void attention_plain_forward_library(const at::Tensor& qkv, const AttentionShape& shape,
                                     const Attention::Result& result, const at::Tensor& scores) {
  for_each_part(shape, [&](const Part& part) {
    at::Tensor of_part = part.workspace(scores);
    const at::Tensor probabilities = part.matrices(result.softmax);
    multiply_to_float(of_part, part.heads(qkv, 0), part.heads(qkv, 1).transpose(1, 2));
    attention_plain_softmax_cuda(part.task(of_part, probabilities), device::current_cuda_stream());
    multiply_into(part.heads(result.y), probabilities, part.heads(qkv, 2));
  });
}

void attention_plain_backward_library(const Attention::BackwardInputs& in,
                                      const AttentionShape& shape, const at::Tensor& dqkv,
                                      const at::Tensor& scores) {
  for_each_part(shape, [&](const Part& part) {
    at::Tensor of_part = part.workspace(scores);
    const at::Tensor probabilities = part.matrices(in.softmax);
    const at::Tensor dy = part.heads(in.dy);
    multiply_into(part.heads(dqkv, 2), probabilities.transpose(1, 2), dy);
    multiply_to_float(of_part, dy, part.heads(in.qkv, 2).transpose(1, 2));
    attention_plain_gradient_cuda(part.task(of_part, probabilities), device::current_cuda_stream());
    // In the type of qkv, at the beginning of each fp32 row.
    const at::Tensor gradients =
        of_part.view(in.qkv.scalar_type()).narrow(2, 0, part.utterances.length);  // [B, T, T]
    multiply_into(part.heads(dqkv, 0), gradients, part.heads(in.qkv, 1));
    multiply_into(part.heads(dqkv, 1), gradients.transpose(1, 2), part.heads(in.qkv, 0));
  });
}

}  // namespace sotto::kernels::detail
