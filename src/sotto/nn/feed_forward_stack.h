// A stack of feed-forward blocks on a packed batch, with explicit forward and backward: what `sotto
// prove memory` runs.
//
// A block is x + dropout(W2 gelu(W1 layer_norm(x) + b1) + b2). N frames, D width, H hidden width.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "sotto/kernels/layer_norm.h"
#include "sotto/kernels/packing.h"

namespace sotto::nn {

// What forward keeps of a block for its backward.
enum class Keep { kEverything, kBlockInputs };

struct FeedForwardOptions {
  int64_t num_layers = 4;
  int64_t width = 256;
  int64_t hidden = 1024;
  double dropout = 0.1;
  // Of activations and matrices; norms and biases are fp32, and so are all gradients of parameters.
  at::ScalarType type = at::kFloat;
  Keep keep = Keep::kEverything;
  uint64_t seed = 1;
};

struct Parameter {
  at::Tensor value;
  at::Tensor gradient;  // fp32, added to by backward
};

class FeedForwardStack {
 public:
  // Allocates weights and zeroed gradients on `device`; on Meta a dry one.
  FeedForwardStack(const FeedForwardOptions& options, const at::Device& device);

  // The stack's output [N, D] for x [N, D]; keeps what backward needs. `step` keys the dropout.
  at::Tensor forward(at::Tensor x, const kernels::Packing& packing, uint64_t step);

  // The gradient [N, D] of forward's input for that of its output; adds to the parameters'
  // gradients.
  at::Tensor backward(at::Tensor dy, const kernels::Packing& packing, uint64_t step);

  void zero_gradients();
  // Lets go of what a forward without its backward has kept: after an out-of-memory error.
  void drop_kept() { kept_.clear(); }

  const FeedForwardOptions& options() const { return options_; }
  std::vector<Parameter*> parameters();

 private:
  struct Block {
    Parameter gamma, beta;       // [D]
    Parameter weight1, weight2;  // [H, D], [D, H]
    Parameter bias1, bias2;      // [H], [D]
  };

  // Of one block's forward. What is not kept is undefined.
  struct Kept {
    at::Tensor x;                          // [N, D]
    kernels::LayerNorm::Result norm = {};  // y [N, D], mean and rstd [N]
    at::Tensor hidden = {};                // [N, H], before the activation
    at::Tensor activated = {};             // [N, H]
  };

  // The inside of a block up to the activation, from kept.x. What `keep` does not keep is let go at
  // its last use.
  void compute_inside(const Block& block, Keep keep, Kept& kept) const;
  at::Tensor backward_block(Block& block, Kept kept, at::Tensor dy, at::Tensor masked_dy) const;
  RandomKey dropout_key(int64_t layer, uint64_t step) const;

  FeedForwardOptions options_;
  std::vector<Block> blocks_;
  std::vector<Kept> kept_;
};

}  // namespace sotto::nn
