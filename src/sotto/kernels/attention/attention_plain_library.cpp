// Plain attention on a GPU: products by ATen, one utterance at a time, softmax by our own kernels.
#include <ATen/ATen.h>

#include <cmath>

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/attention/attention.h"
#include "sotto/kernels/attention/attention_shape.h"
#include "sotto/kernels/attention/attention_task.h"
#include "sotto/kernels/base/kernel.h"

namespace sotto::kernels::detail {

SOTTO_CUDA_ENTRY void attention_plain_softmax_cuda(const CudaPlainScores& task, void* stream);
SOTTO_CUDA_ENTRY void attention_plain_gradient_cuda(const CudaPlainScores& task, void* stream);

namespace {

// One utterance of a pack. T frames.
struct Part {
  const AttentionShape& shape;
  int64_t start;
  int64_t length;
  int64_t first_probability;

  // Returns [H, T, head size] of rows [N, D]; or of part 0, 1, 2 of rows [N, 3 D].
  at::Tensor heads(const at::Tensor& rows, int64_t which = 0) const {
    return rows.narrow(0, start, length)
        .view({length, -1, shape.num_heads, shape.head_size})
        .select(1, which)
        .transpose(0, 1);
  }
  // Returns a view [H, T, T].
  at::Tensor matrix(const at::Tensor& flat, int64_t first) const {
    const int64_t size = shape.num_heads * length * length;
    return flat.view(-1).narrow(0, first, size).view({shape.num_heads, length, length});
  }
  CudaPlainScores task(const at::Tensor& scores, const at::Tensor& probabilities) const {
    const CudaArray array = cuda_array(probabilities);
    return {.scores = scores.mutable_data_ptr<float>(),
            .probabilities = array.data,
            .type = array.type,
            .num_heads = shape.num_heads,
            .length = length,
            .left = shape.left,
            .right = shape.right,
            .scale = 1.0f / std::sqrt(static_cast<float>(shape.head_size))};
  }
};

template <class Body>
void for_each_part(const AttentionShape& shape, Body body) {
  int64_t first = 0;
  for (int64_t u = 0; u < shape.num_utterances(); ++u) {
    const int64_t length = shape.num_queries_of(u);
    body(Part{.shape = shape,
              .start = shape.first_query_of(u),
              .length = length,
              .first_probability = first});
    first += shape.num_heads * length * length;
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

void attention_plain_forward_library(const at::Tensor& qkv, const AttentionShape& shape,
                                     const Attention::Result& result, const at::Tensor& scores) {
  for_each_part(shape, [&](const Part& part) {
    at::Tensor of_part = part.matrix(scores, 0);
    const at::Tensor probabilities = part.matrix(result.softmax, part.first_probability);
    multiply_to_float(of_part, part.heads(qkv, 0), part.heads(qkv, 1).transpose(1, 2));
    // The scores are not scaled yet: the softmax applies the scale, also to the bias.
    if (shape.bias != nullptr)
      of_part.add_(part.matrix(shape.bias->values, part.first_probability),
                   std::sqrt(static_cast<double>(shape.head_size)));
    attention_plain_softmax_cuda(part.task(of_part, probabilities), device::current_cuda_stream());
    multiply_into(part.heads(result.y), probabilities, part.heads(qkv, 2));
  });
}

void attention_plain_backward_library(const Attention::BackwardInputs& in,
                                      const AttentionShape& shape, const at::Tensor& dqkv,
                                      const at::Tensor& scores) {
  for_each_part(shape, [&](const Part& part) {
    at::Tensor of_part = part.matrix(scores, 0);
    const at::Tensor probabilities = part.matrix(in.softmax, part.first_probability);
    const at::Tensor dy = part.heads(in.dy);
    multiply_into(part.heads(dqkv, 2), probabilities.transpose(1, 2), dy);
    multiply_to_float(of_part, dy, part.heads(in.qkv, 2).transpose(1, 2));
    CudaPlainScores task = part.task(of_part, probabilities);
    if (const at::Tensor* d_bias = shape.bias_gradient())
      task.d_bias = part.matrix(*d_bias, part.first_probability).data_ptr();
    attention_plain_gradient_cuda(task, device::current_cuda_stream());
    // In the type of qkv, at the beginning of each fp32 row.
    const at::Tensor gradients =
        of_part.view(in.qkv.scalar_type()).narrow(2, 0, part.length);  // [H, T, T]
    multiply_into(part.heads(dqkv, 0), gradients, part.heads(in.qkv, 1));
    multiply_into(part.heads(dqkv, 1), gradients.transpose(1, 2), part.heads(in.qkv, 0));
  });
}

}  // namespace sotto::kernels::detail
