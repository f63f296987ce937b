// The input of networks that read tokens: the row of a table for each token, plus its position, and
// dropout. N tokens, D width, V entries.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "sotto/nn/context.h"
#include "sotto/nn/layers/positions.h"
#include "sotto/nn/parameters.h"

namespace sotto::nn {

struct TokenEmbeddingOptions {
  PositionOptions positions;
  double dropout = 0.1;
  // Type of activations.
  at::ScalarType compute = at::kFloat;
};

class TokenEmbedding {
 public:
  // Standard deviation of the initial table.
  static constexpr double kDeviation = 0.02;

  // `table` [V, D]; positions are named POSITIONS.
  TokenEmbedding(ParameterStore& store, Parameter& table, const std::string& positions,
                 const TokenEmbeddingOptions& options);

  // Returns x [N, D] for tokens [N] int32.
  at::Tensor forward(const at::Tensor& tokens, const Context& context) const;
  // Returns x [H, D] for one token of each of H hypotheses, all at the same position.
  at::Tensor step(const at::Tensor& tokens, int64_t position) const;
  // Accumulates into the gradients of the table and of positions, for dx [N, D].
  void backward(at::Tensor dx, const at::Tensor& tokens, const Context& context) const;

 private:
  at::Tensor rows_of(const at::Tensor& tokens) const;

  TokenEmbeddingOptions options_;
  Parameter& table_;  // [V, D]
  Positions positions_;
};

}  // namespace sotto::nn
