#include "sotto/nn/fronts/token_embedding.h"

#include <vector>

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

at::Tensor TokenEmbedding::rows_of(const at::Tensor& tokens) const {
  at::Tensor x = kernels::Embedding::forward(tokens, table_.value);
  if (x.scalar_type() != options_.compute) x = kernels::Cast::to(x, options_.compute);
  return x;
}

at::Tensor TokenEmbedding::step(const at::Tensor& tokens, int64_t position) const {
  at::Tensor x = rows_of(tokens);
  const std::vector<int64_t> ones(static_cast<size_t>(tokens.size(0)), 1);
  positions_.add(x, kernels::Packing(ones, tokens.device()), position);
  return x;
}

at::Tensor TokenEmbedding::forward(const at::Tensor& tokens, const Context& context) const {
  const device::MomentScope moment(context.moment(device::Phase::kForward));
  at::Tensor x = rows_of(tokens);
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
