// Rows of the kernel table: recurrences over packed sequences.
#include <cmath>
#include <tuple>
#include <vector>

#include "sotto/kernels/recurrent/lstm.h"
#include "support/kernel_case_tools.h"

namespace sotto::test {

namespace {

using namespace sotto::kernels;  // NOLINT: the table names kernels on every line

// --- long short-term memory: inputs x, dy, weights and biases, then for a step of decoding the
// state and the rows that each sequence continues from and writes; results y, dx, the gradients of
// the weights, and the state after the step

enum LstmInput : size_t { kX, kDy, kInput, kHidden, kBiases, kState = 6, kCells, kFrom, kTo };

int64_t lstm_inputs_of(int64_t width) {
  return width + 2;
}

// For sums of about 1: in 16 bits larger ones lose digits that gates still show.
Input halved(Input input) {
  input.values /= 2.0;
  return input;
}
Input gate_weights(at::IntArrayRef sizes, uint64_t seed) {
  Input input = data(sizes, seed);
  input.values /= std::sqrt(static_cast<double>(sizes.back()));
  return halved(input);
}

Input rows_in_turn(const std::vector<int32_t>& rows) {
  return {Input::Kind::kIndex, at::tensor(rows, at::kInt)};
}

// Sequence i continues from row B - 1 - i and writes row B + i: another than any that is read.
std::vector<Input> lstm_inputs(const Shape& s) {
  const auto sequences = static_cast<int32_t>(lengths_for(s.rows).size());
  std::vector<int32_t> from, to;
  for (int32_t i = 0; i < sequences; ++i) {
    from.push_back(sequences - 1 - i);
    to.push_back(sequences + i);
  }
  const int64_t inputs = lstm_inputs_of(s.width);
  return {data({s.rows, inputs}, 1),
          data({s.rows, s.width}, 2),
          gate_weights({4 * s.width, inputs}, 3),
          gate_weights({4 * s.width, s.width}, 4),
          halved(parameter({4 * s.width}, 5)),
          halved(parameter({4 * s.width}, 6)),
          data({int64_t{2} * sequences, s.width}, 7),
          parameter({int64_t{2} * sequences, s.width}, 8),
          rows_in_turn(from),
          rows_in_turn(to)};
}

Tensors run_lstm(const Tensors& in, const Packing& packing) {
  const RecurrenceOrder order(packing);
  const Lstm::Weights weights{.input = in[kInput],
                              .hidden = in[kHidden],
                              .input_bias = in[kBiases],
                              .hidden_bias = in[kBiases + 1]};
  at::Tensor grad_input = float_zeros(in[kInput].sizes(), in[kInput]);
  at::Tensor grad_hidden = float_zeros(in[kHidden].sizes(), in[kHidden]);
  at::Tensor grad_input_bias = float_zeros(in[kBiases].sizes(), in[kBiases]);
  at::Tensor grad_hidden_bias = float_zeros(in[kBiases].sizes(), in[kBiases]);
  const Lstm::Activations activations = Lstm::forward(in[kX], weights, order);
  const at::Tensor y = Lstm::output(activations, order);
  const at::Tensor dx = Lstm::backward(
      {.dy = in[kDy], .x = in[kX], .activations = activations, .weights = weights}, order,
      {.input = grad_input,
       .hidden = grad_hidden,
       .input_bias = grad_input_bias,
       .hidden_bias = grad_hidden_bias});
  Lstm::State state{.hidden = copy_of(in[kState]), .cells = copy_of(in[kCells])};
  const at::Tensor first_rows = in[kX].narrow(0, 0, packing.num_utterances());
  Lstm::step({.x = first_rows, .from = in[kFrom], .to = in[kTo]}, weights, state);
  return {y,          dx, grad_input, grad_hidden, grad_input_bias, grad_hidden_bias, state.hidden,
          state.cells};
}

Tensors reference_lstm(const Tensors& in, const Packing& packing) {
  const at::Tensor x = leaf(in[kX]);
  const Tensors weights = {leaf(in[kInput]), leaf(in[kHidden]), leaf(in[kBiases]),
                           leaf(in[kBiases + 1])};
  // [T, 1, I] with the state [1, 1, H] before it
  const auto lstm = [&](const at::Tensor& rows, const at::Tensor& hidden, const at::Tensor& cell) {
    return at::lstm(rows.unsqueeze(1), {hidden.view({1, 1, -1}), cell.view({1, 1, -1})}, weights,
                    /*has_biases=*/true, /*num_layers=*/1, /*dropout=*/0.0, /*train=*/false,
                    /*bidirectional=*/false, /*batch_first=*/false);
  };
  const at::Tensor zero = at::zeros({in[kHidden].size(1)}, at::kDouble);
  Tensors parts;
  for (const at::Tensor& rows : x.split_with_sizes(packing.lengths()))
    parts.push_back(std::get<0>(lstm(rows, zero, zero)).squeeze(1));
  const at::Tensor y = at::cat(parts);
  y.backward(in[kDy]);
  at::Tensor hidden = in[kState].clone(), cells = in[kCells].clone();
  for (int64_t i = 0; i < packing.num_utterances(); ++i) {
    const auto from = in[kFrom][i].item<int64_t>(), to = in[kTo][i].item<int64_t>();
    const auto [all, last, cell] = lstm(in[kX].narrow(0, i, 1), in[kState][from], in[kCells][from]);
    hidden[to] = last.detach().view({-1});
    cells[to] = cell.detach().view({-1});
  }
  return {y.detach(),
          x.grad(),
          weights[0].grad(),
          weights[1].grad(),
          weights[2].grad(),
          weights[3].grad(),
          hidden,
          cells};
}

}  // namespace

std::vector<KernelCase> recurrent_kernel_cases() {
  return {{"Lstm", true, lstm_inputs, run_lstm, reference_lstm}};
}

}  // namespace sotto::test
