// The prediction network of a transducer: an embedding of the labels so far and LSTM layers, with
// dropout after each layer (NeMo's RNNTDecoder). A sequence starts with the blank, which stands for
// the start of the text. N rows, H width, V entries including the blank.
//
//   rows of an utterance with the labels a b c:   blank a b c
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sotto/kernels/base/packing.h"
#include "sotto/nn/context.h"
#include "sotto/nn/layers/lstm_layer.h"
#include "sotto/nn/parameters.h"
#include "sotto/nn/tape.h"

namespace sotto::nn {

struct PredictionNetworkOptions {
  // Number of entries including the blank.
  int64_t vocabulary = 1025;
  int64_t blank = 1024;
  int64_t layers = 2;
  int64_t width = 640;
  // After each layer.
  double dropout = 0.2;
  // Whether the blank's row of the embedding is trained, as in transformers. If not, it starts with
  // zeros and stays as it is, as in NeMo.
  bool trains_blank = true;
  // Number of its first LSTM layer in the network; the embedding belongs to it.
  int64_t first_layer = 0;
  // Type of activations.
  at::ScalarType compute = at::kFloat;
};

class PredictionNetwork {
 public:
  // Parameters are named NAME.embedding.weight, NAME.lstm.0.weight_ih and so on.
  PredictionNetwork(ParameterStore& store, const std::string& name,
                    const PredictionNetworkOptions& options);

  // The rows of a micro-batch. Tokens [N] int32: for each sequence the blank, then its labels.
  struct Rows {
    const at::Tensor& tokens;
    const kernels::Packing& packing;
  };

  // Returns y [N, H].
  at::Tensor forward(const Rows& rows, const StepContext& step, Tape& tape) const;

  // Adds to the parameters' gradients, for dy [N, H]; closes the layers' tapes.
  void backward(at::Tensor dy, const Rows& rows, const StepContext& step, Tape& tape) const;

  // Decoding token by token. What a sequence carries is a row, so that hypotheses that split share
  // one, and those that wait keep theirs:
  //
  //   PredictionNetwork::State state = network.make_state(num_rows, device);
  //   y = network.step({.tokens = blanks, .from = rows, .to = rows}, state);
  using State = std::vector<kernels::Lstm::State>;  // of each layer

  // Returns the state of `num_rows` sequences that have not started.
  State make_state(int64_t num_rows, const at::Device& device) const;

  struct Tokens {
    const at::Tensor& tokens;  // [A] int32, one of each sequence
    // [A] int32: the row that each sequence continues from, and the row that it writes. Several may
    // continue from one row; a row that is written may be read by none but the sequence that writes
    // it.
    const at::Tensor& from;
    const at::Tensor& to;
  };
  // Returns y [A, H] after one more token of A sequences.
  at::Tensor step(const Tokens& tokens, State& state) const;

 private:
  Context context_of(const Rows& rows, const StepContext& step) const {
    return {.step = step, .packing = rows.packing, .layer = options_.first_layer};
  }
  at::Tensor embedded(const at::Tensor& tokens) const;
  void accumulate_embedding(at::Tensor dx, const Rows& rows, const Context& context) const;

  PredictionNetworkOptions options_;
  Parameter& table_;  // [V, H]
  std::vector<LstmLayer> layers_;
};

}  // namespace sotto::nn
