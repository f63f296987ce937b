// A transformer block on one token at a time, for decoding.
#include <ATen/ATen.h>

#include "sotto/kernels/attention/row_attention.h"
#include "sotto/kernels/elementwise/residual_add.h"
#include "sotto/nn/blocks/transformer_block.h"

namespace sotto::nn {

using kernels::ResidualAdd;
using kernels::RowAttention;

BlockCache TransformerBlock::make_cache(int64_t num_rows, const at::Tensor& seen) const {
  SOTTO_ASSERT(options_.norm_first && cross_, "a cache of a block that is not a decoder's");
  return {.own = at::empty({num_rows, 2 * options_.width}, seen.options()),
          .seen = cross_->keys_values_of(seen)};
}

at::Tensor TransformerBlock::step(const at::Tensor& x, const BlockCache& cache,
                                  const DecodingStep& step) const {
  at::Tensor middle;  // [H, D]
  {
    const at::Tensor qkv = qkv_.forward(norm1_.forward(x).front());  // [H, 3 D]
    const at::Tensor rows = cache.own.narrow(0, step.first_row, x.size(0));
    if (!rows.is_meta()) rows.copy_(qkv.narrow(1, options_.width, 2 * options_.width));
    middle = out_.forward(
        RowAttention::forward({.q = qkv, .kv = cache.own}, step.own, options_.attention.num_heads));
  }
  ResidualAdd::accumulate(middle, x);
  middle = cross_->step(middle, cache.seen, step);
  at::Tensor y =
      ffn2_.forward(activate(options_.activation, ffn1_.forward(norm2_.forward(middle).front())));
  ResidualAdd::accumulate(y, middle);
  return y;
}

}  // namespace sotto::nn
