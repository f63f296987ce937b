// The loss of a language model including its output projection: cross entropy of x weight^T against
// one target per row, on a pack. N rows of B utterances, D width, V entries of the vocabulary.
//
// Processes the rows in chunks, so that only the logits of one chunk exist at a time. Their
// gradient is computed in place, and multiplied into dx and the weight's gradient before the next
// chunk: forward therefore receives the weight of each utterance in the sum of losses. Logits have
// x's type, everything computed from them is fp32. Rows without a target take no part in any
// product.
//
// Allocates: loss, and dx in forward. As workspace the logits of a chunk of R rows, [R, V] in x's
// type, and the workspace of Gemm for a product of them; if some rows have no target, the rows of a
// chunk that have one and, in forward, their gradient, [R, D] each; and 16 bytes per row of the
// pack. On the CPU the products are computed by slices of the vocabulary, since ATen's product
// would copy the whole weight, and forward sums them in fp32 [R, D]. The bytes depend only on the
// shapes and on which rows have a target.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "sotto/kernels/base/labels.h"
#include "sotto/kernels/base/packing.h"

namespace sotto::kernels {

struct CrossEntropy {
  // The target of a row that does not count.
  static constexpr int32_t kNoTarget = -100;

  enum class Variant {
    kChunked,  // the default
    kWhole,    // all rows are one chunk, a baseline for comparison: holds all logits
  };

  struct Options {
    // Share of each target that is spread evenly over the vocabulary (label smoothing), from 0 to
    // 1.
    double smoothing = 0.0;
    // Maximum bytes of the logits of a chunk. A chunk has the most rows that fit, in multiples of
    // kRowStep and at least that many. 52 MiB are 512 rows of 50,000 entries in 16 bits: for a
    // width of 1,024 all other allocations except dx then stay below 64 MiB (on the CPU with up to
    // 36 threads, each of which needs some memory for a product). Fewer rows are slower on a GPU,
    // which reads and writes the whole gradient of the weight once per chunk.
    int64_t chunk_bytes = int64_t{52} << 20;
    Variant variant = Variant::kChunked;
  };

  static constexpr int64_t kRowStep = 64;

  struct Inputs {
    const at::Tensor& x;       // [N, D]
    const at::Tensor& weight;  // [V, D], type of x
    const Packing& packing;
    // One value per row: an entry, or kNoTarget.
    const Labels& targets;
  };

  struct Result {
    // [B] fp32, the sum over the utterance's rows that count: not weighted, 0 if there are none,
    // NaN if one of their logits is NaN or infinite. Matches PyTorch's cross_entropy with
    // label_smoothing.
    at::Tensor loss;
    // [N, D], type of x: the gradient of the sum of weights[u] * loss[u]; 0 in rows that do not
    // count, NaN in rows with such a logit.
    at::Tensor dx;
  };

  // Returns the losses and dx; grad_weight [V, D] fp32 += the weight's gradient of the same sum. A
  // null grad_weight means that the projection is frozen. Throws DataError for a target that is
  // neither an entry nor kNoTarget.
  static Result forward(const Inputs& in, std::span<const float> weights, at::Tensor* grad_weight,
                        const Options& options);

  // Returns only the losses, [B], bitwise equal to those of forward.
  static at::Tensor evaluate(const Inputs& in, const Options& options);
};

}  // namespace sotto::kernels
