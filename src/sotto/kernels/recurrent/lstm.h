// A layer of long short-term memory over packed sequences, as torch.nn.LSTM: gates in the order i,
// f, g, o, and two biases. The products of the inputs are computed for all rows at once; the
// recurrence then takes one product and one pass over the gates per step, for the sequences that
// have not ended. Cells are fp32 for every type. N rows, B sequences, I inputs, H width.
//
//   i, f, o = sigmoid, g = tanh of: x W_input^T + b_input + h_before W_hidden^T + b_hidden
//   c = f c_before + i g,   h = o tanh(c)
//
// Allocates: forward its activations, and as workspace x in the order of steps [N, I]; output y;
// backward dx, and as workspace x, dx [N, I], dh, h [N, H] in the order of steps and fp32 [B, H];
// step workspace [A, 4 H] and [A, H].
#pragma once

#include <ATen/core/Tensor.h>

#include "sotto/kernels/base/recurrence_order.h"

namespace sotto::kernels {

struct Lstm {
  struct Weights {
    const at::Tensor& input;        // [4 H, I]
    const at::Tensor& hidden;       // [4 H, H]
    const at::Tensor& input_bias;   // [4 H] fp32
    const at::Tensor& hidden_bias;  // [4 H] fp32
  };

  // Gradients of the weights: of matrices in fp32 or of their type, of biases in fp32.
  struct Gradients {
    at::Tensor& input;
    at::Tensor& hidden;
    at::Tensor& input_bias;
    at::Tensor& hidden_bias;
  };

  // What backward needs of forward; rows are in the order of steps.
  struct Activations {
    at::Tensor gates;   // [N, 4 H] after their activations
    at::Tensor cells;   // [N, H] fp32
    at::Tensor hidden;  // [N, H]
  };

  // Returns the activations for x [N, I].
  static Activations forward(const at::Tensor& x, const Weights& weights,
                             const RecurrenceOrder& order);

  // Returns y [N, H], the hidden states in the order of the pack.
  static at::Tensor output(const Activations& activations, const RecurrenceOrder& order);

  struct BackwardInputs {
    const at::Tensor& dy;  // [N, H]
    const at::Tensor& x;   // [N, I] of forward
    // Gates are overwritten by their gradients.
    const Activations& activations;
    const Weights& weights;
  };
  // Returns dx [N, I]; adds to the gradients of the weights.
  static at::Tensor backward(const BackwardInputs& in, const RecurrenceOrder& order,
                             const Gradients& gradients);

  // What sequences carry from step to step in decoding, a row each, in R rows.
  struct State {
    at::Tensor hidden;  // [R, H]
    at::Tensor cells;   // [R, H] fp32
  };

  struct StepInputs {
    const at::Tensor& x;  // [A, I]
    // [A] int32: the row of the state that each sequence continues from, and the row that it
    // writes. Several may continue from one row; a row that is written may be read by none but the
    // sequence that writes it.
    const at::Tensor& from;
    const at::Tensor& to;
  };
  // Takes one step of A sequences. Only for inference: no backward.
  static void step(const StepInputs& in, const Weights& weights, State& state);
};

}  // namespace sotto::kernels
