// The loss of a language model through its output projection: cross entropy of x weight^T against
// one target a row, on a pack. N rows of B utterances, D width, V entries of the vocabulary.
//
// Goes through the rows in chunks, so that the logits of one chunk alone ever exist. Their gradient
// is formed where they lie, and multiplied on into dx and the weight's gradient before the next
// chunk: forward receives what the sum of losses weighs each utterance by. Logits are of x's type,
// what is made of them is fp32. Rows without a target take no part in any product.
//
// Allocates: loss, and dx in forward. As workspace the logits of a chunk of R rows, [R, V] in x's
// type, and what Gemm takes for a product of them; where some rows have no target, those of a chunk
// that have one and, in forward, their gradient, [R, D] each; and 16 bytes a row of the pack. On
// the CPU the products go by slices of the vocabulary, since ATen's would copy the weight whole,
// and forward sums them in fp32 [R, D]. The bytes follow from the shapes and from which rows have a
// target.
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
    kChunked,  // the normal one
    kWhole,    // all rows are one chunk, the baseline to compare with: holds all logits
  };

  struct Options {
    // Share of each target that is spread evenly over the vocabulary (label smoothing), from 0
    // to 1.
    double smoothing = 0.0;
    // What the logits of a chunk may take. It has the most rows that fit, in multiples of kRowStep
    // and at least that many. 52 MiB are 512 rows of 50,000 entries in 16 bits: for a width of
    // 1,024 all that is allocated besides dx then stays below 64 MiB (on the CPU with up to 36
    // threads, for each of which a product takes some). Fewer rows are slower on a GPU, which
    // reads and writes all of the weight's gradient once a chunk.
    int64_t chunk_bytes = int64_t{52} << 20;
    Variant variant = Variant::kChunked;
  };

  static constexpr int64_t kRowStep = 64;

  struct Inputs {
    const at::Tensor& x;       // [N, D]
    const at::Tensor& weight;  // [V, D], type of x
    const Packing& packing;
    // One value a row: an entry, or kNoTarget.
    const Labels& targets;
  };

  struct Result {
    // [B] fp32, the sum over the utterance's rows that count: not weighted, 0 where none does, NaN
    // where a logit of them is NaN or infinite. As PyTorch's cross_entropy with label_smoothing.
    at::Tensor loss;
    // [N, D], type of x: the gradient of the sum of weights[u] * loss[u]; 0 in rows that do not
    // count, NaN in those with such a logit.
    at::Tensor dx;
  };

  // The losses and dx; grad_weight [V, D] fp32 += the weight's gradient of the same sum. A null
  // grad_weight: the projection is frozen. Throws DataError for a target that is neither an entry
  // nor kNoTarget.
  static Result forward(const Inputs& in, std::span<const float> weights, at::Tensor* grad_weight,
                        const Options& options);

  // The losses alone, [B], bit for bit those of forward.
  static at::Tensor evaluate(const Inputs& in, const Options& options);
};

}  // namespace sotto::kernels
