#include "sotto/nn/token_embedding.h"

#include "sotto/kernels/elementwise/cast.h"
#include "sotto/kernels/elementwise/dropout.h"
#include "sotto/kernels/elementwise/embedding.h"

namespace sotto::nn {

namespace {

constexpr int64_t kEmbeddingDropout = 0;

}  // namespace

TokenEmbedding::TokenEmbedding(ParameterStore& store, Parameter& table,
                               const std::string& positions, const TokenEmbeddingOptions& options)
    : options_(options), table_(table), positions_(store, positions, options.positions) {}

at::Tensor TokenEmbedding::forward(const at::Tensor& tokens, const Context& context) const {
  const device::MomentScope moment(context.moment(device::Phase::kForward));
  at::Tensor x = kernels::Embedding::forward(tokens, table_.value);
  if (x.scalar_type() != options_.compute) x = kernels::Cast::to(x, options_.compute);
  positions_.add(x, context.packing);
  kernels::Dropout::apply(x, context.packing, context.dropout(kEmbeddingDropout, options_.dropout));
  return x;
}

void TokenEmbedding::backward(at::Tensor dx, const at::Tensor& tokens,
                              const Context& context) const {
  const device::MomentScope moment(context.moment(device::Phase::kBackward));
  kernels::Dropout::apply(dx, context.packing,
                          context.dropout(kEmbeddingDropout, options_.dropout));
  positions_.accumulate(dx, context.packing);
  GradientSum gradient(table_);
  kernels::Embedding::backward(dx, tokens, gradient.sum());
  gradient.add();
}

}  // namespace sotto::nn
