#include "sotto/kernels/recurrent/lstm.h"

#include <ATen/ATen.h>

#include "sotto/device/cuda_device.h"
#include "sotto/device/memory_scope.h"
#include "sotto/kernels/base/kernel.h"
#include "sotto/kernels/elementwise/column_sum.h"
#include "sotto/kernels/elementwise/embedding.h"
#include "sotto/kernels/product/gemm.h"
#include "sotto/kernels/recurrent/lstm_task.h"

namespace sotto::kernels {

namespace detail {
// The element type is that of `gates`.
void lstm_forward_cpu(const LstmForwardTask& task, const at::Tensor& gates);
void lstm_backward_cpu(const LstmBackwardTask& task, const at::Tensor& gates);
SOTTO_CUDA_ENTRY void lstm_forward_cuda(const LstmForwardTask& task, ElementType type,
                                        void* stream);
SOTTO_CUDA_ENTRY void lstm_backward_cuda(const LstmBackwardTask& task, ElementType type,
                                         void* stream);
}  // namespace detail

namespace {

using device::Category;
using device::CategoryScope;

constexpr int64_t kGates = 4;

// Checks the weights for x [.., I]; returns H.
int64_t checked_width(const at::Tensor& x, const Lstm::Weights& weights) {
  check_rows(x, "x");
  check_rows(weights.input, "input weight");
  check_rows(weights.hidden, "hidden weight");
  const int64_t width = weights.hidden.size(1);
  SOTTO_ASSERT(weights.hidden.size(0) == kGates * width &&
                   weights.input.size(0) == kGates * width && weights.input.size(1) == x.size(1),
               "weights are [{}, {}] and [{}, {}] for {} inputs", weights.input.size(0),
               weights.input.size(1), weights.hidden.size(0), width, x.size(1));
  SOTTO_ASSERT(weights.input.scalar_type() == x.scalar_type() &&
                   weights.hidden.scalar_type() == x.scalar_type(),
               "weights are {} and {}, x is {}", c10::toString(weights.input.scalar_type()),
               c10::toString(weights.hidden.scalar_type()), c10::toString(x.scalar_type()));
  check_float_vector(weights.input_bias, kGates * width, "input bias");
  check_float_vector(weights.hidden_bias, kGates * width, "hidden bias");
  return width;
}

void check_activations(const Lstm::Activations& kept, const RecurrenceOrder& order, int64_t width) {
  const int64_t rows = order.num_rows();
  check_rows(kept.gates, "gates");
  check_rows(kept.cells, "cells");
  check_rows(kept.hidden, "hidden states");
  SOTTO_ASSERT(kept.gates.size(0) == rows && kept.gates.size(1) == kGates * width,
               "gates are [{}, {}] for {} rows of width {}", kept.gates.size(0), kept.gates.size(1),
               rows, width);
  SOTTO_ASSERT(kept.cells.scalar_type() == at::kFloat &&
                   kept.cells.sizes() == kept.hidden.sizes() && kept.hidden.size(0) == rows &&
                   kept.hidden.size(1) == width,
               "cells or hidden states of another shape");
}

// Returns x at the given rows, in the workspace.
at::Tensor rows_in_workspace(const at::Tensor& rows, const at::Tensor& x) {
  const CategoryScope category(Category::kWorkspace);
  return Embedding::forward(rows, x);
}

// Per value of the state: four gates, of which three take an exponential and one a tangent, and the
// tangent of the cell.
Cost gate_cost(const at::Tensor& gates, double flops_per_gate, double float_vectors) {
  const auto values = static_cast<double>(gates.numel());
  return {.flops = flops_per_gate * values,
          .bytes = 2.25 * bytes_of(gates) + float_vectors * sizeof(float) * values / kGates};
}

// Where a step of forward reads and writes cells and hidden states.
struct StepStates {
  const at::Tensor* cells_before;  // null: zeros
  const at::Tensor& cells;
  const at::Tensor& hidden;
  const at::Tensor* from = nullptr;
  const at::Tensor* to = nullptr;
};

// Turns the sums in gates [A, 4 H] into the state after the step.
void take_step(const at::Tensor& gates, const Lstm::Weights& weights, const StepStates& states) {
  report_cost("lstm.forward", gate_cost(gates, 18.0, 2.0));
  if (is_dry(gates)) return;
  detail::LstmForwardTask task{.num_rows = gates.size(0),
                               .width = states.hidden.size(1),
                               .gates = gates.data_ptr(),
                               .input_bias = weights.input_bias.const_data_ptr<float>(),
                               .hidden_bias = weights.hidden_bias.const_data_ptr<float>(),
                               .cells = states.cells.mutable_data_ptr<float>(),
                               .hidden = states.hidden.mutable_data_ptr(),
                               .num_state_rows = states.hidden.size(0)};
  if (states.cells_before != nullptr)
    task.cells_before = states.cells_before->const_data_ptr<float>();
  if (states.from != nullptr) task.from = states.from->const_data_ptr<int32_t>();
  if (states.to != nullptr) task.to = states.to->const_data_ptr<int32_t>();
  if (gates.is_cuda()) {
    detail::lstm_forward_cuda(task, cuda_array(gates).type, device::current_cuda_stream());
  } else {
    detail::lstm_forward_cpu(task, gates);
  }
}

// Turns the gates [A, 4 H] of a step into the gradients of their sums. `d_cells` [B, H] is carried
// from step to step.
void take_backward_step(const Lstm::Activations& kept, const at::Tensor& dh,
                        const at::Tensor& d_cells, const RecurrenceOrder& order, int64_t step) {
  const int64_t first = order.first_row(step), count = order.rows_in(step);
  const at::Tensor gates = kept.gates.narrow(0, first, count);
  report_cost("lstm.backward", gate_cost(gates, 14.0, 4.0));
  if (is_dry(gates)) return;
  const float* cells = kept.cells.const_data_ptr<float>();
  const int64_t width = kept.cells.size(1);
  const detail::LstmBackwardTask task{
      .num_rows = count,
      .width = width,
      .num_continued = order.rows_in(step + 1),
      .dh = dh.narrow(0, first, count).const_data_ptr(),
      .cells = cells + first * width,
      .cells_before = step > 0 ? cells + order.first_row(step - 1) * width : nullptr,
      .gates = gates.data_ptr(),
      .d_cells = d_cells.mutable_data_ptr<float>()};
  if (gates.is_cuda()) {
    detail::lstm_backward_cuda(task, cuda_array(gates).type, device::current_cuda_stream());
  } else {
    detail::lstm_backward_cpu(task, gates);
  }
}

// Overwrites the gates by the gradients of their sums, from the last step to the first.
void backward_through_steps(const Lstm::BackwardInputs& in, const RecurrenceOrder& order) {
  at::Tensor dh = rows_in_workspace(order.packed_rows(), in.dy);  // [N, H]
  const at::Tensor d_cells =
      make_workspace({order.num_sequences(), dh.size(1)}, dh.options().dtype(at::kFloat));
  for (int64_t step = order.num_steps(); step-- > 0;) {
    if (const int64_t later = order.rows_in(step + 1); later > 0) {
      at::Tensor continued = dh.narrow(0, order.first_row(step), later);
      Gemm::accumulate(continued,
                       {.a = in.activations.gates.narrow(0, order.first_row(step + 1), later),
                        .b = in.weights.hidden});
    }
    take_backward_step(in.activations, dh, d_cells, order, step);
  }
}

}  // namespace

Lstm::Activations Lstm::forward(const at::Tensor& x, const Weights& weights,
                                const RecurrenceOrder& order) {
  const int64_t width = checked_width(x, weights);
  const int64_t rows = order.num_rows();
  SOTTO_ASSERT(x.size(0) == rows, "{} rows for an order of {}", x.size(0), rows);
  Activations kept{.gates = make_result({rows, kGates * width}, x),
                   .cells = make_float_result({rows, width}, x),
                   .hidden = make_result({rows, width}, x)};
  {
    const at::Tensor ordered = rows_in_workspace(order.packed_rows(), x);
    Gemm::multiply_into(kept.gates, {.a = ordered, .b = weights.input, .transpose_b = true});
  }
  at::Tensor hidden_before, cells_before;
  for (int64_t step = 0; step < order.num_steps(); ++step) {
    const int64_t first = order.first_row(step), count = order.rows_in(step);
    at::Tensor gates = kept.gates.narrow(0, first, count);
    const at::Tensor cells = kept.cells.narrow(0, first, count);
    const at::Tensor hidden = kept.hidden.narrow(0, first, count);
    if (step > 0) {
      Gemm::accumulate(
          gates,
          {.a = hidden_before.narrow(0, 0, count), .b = weights.hidden, .transpose_b = true});
    }
    take_step(
        gates, weights,
        {.cells_before = step > 0 ? &cells_before : nullptr, .cells = cells, .hidden = hidden});
    hidden_before = hidden;
    cells_before = cells;
  }
  return kept;
}

at::Tensor Lstm::output(const Activations& kept, const RecurrenceOrder& order) {
  return Embedding::forward(order.ordered_rows(), kept.hidden);
}

at::Tensor Lstm::backward(const BackwardInputs& in, const RecurrenceOrder& order,
                          const Gradients& gradients) {
  const int64_t width = checked_width(in.x, in.weights);
  const int64_t rows = order.num_rows();
  check_activations(in.activations, order, width);
  check_same(in.activations.hidden, in.dy, "dy");
  SOTTO_ASSERT(in.x.size(0) == rows, "{} rows for an order of {}", in.x.size(0), rows);
  backward_through_steps(in, order);

  const at::Tensor& d_gates = in.activations.gates;
  ColumnSum::accumulate(gradients.input_bias, d_gates);
  ColumnSum::accumulate(gradients.hidden_bias, d_gates);
  if (const int64_t later = rows - order.num_sequences(); later > 0) {
    const at::Tensor before = rows_in_workspace(order.earlier_rows(), in.activations.hidden);
    Gemm::accumulate(
        gradients.hidden,
        {.a = d_gates.narrow(0, order.num_sequences(), later), .b = before, .transpose_a = true});
  }
  {
    const at::Tensor ordered = rows_in_workspace(order.packed_rows(), in.x);
    Gemm::accumulate(gradients.input, {.a = d_gates, .b = ordered, .transpose_a = true});
  }
  at::Tensor ordered = make_workspace(in.x.sizes(), in.x.options());
  Gemm::multiply_into(ordered, {.a = d_gates, .b = in.weights.input});
  return Embedding::forward(order.ordered_rows(), ordered);
}

void Lstm::step(const StepInputs& in, const Weights& weights, State& state) {
  const int64_t width = checked_width(in.x, weights);
  check_rows(state.hidden, "hidden states");
  check_rows(state.cells, "cells");
  SOTTO_ASSERT(state.hidden.sizes() == state.cells.sizes() && state.hidden.size(1) == width &&
                   state.hidden.scalar_type() == in.x.scalar_type() &&
                   state.cells.scalar_type() == at::kFloat,
               "the state is [{}, {}] for a width of {}", state.hidden.size(0),
               state.hidden.size(1), width);
  SOTTO_ASSERT(in.from.sizes() == in.to.sizes() && in.to.size(0) == in.x.size(0),
               "{} rows of x, rows of the state for {} and {}", in.x.size(0), in.from.size(0),
               in.to.size(0));
  at::Tensor gates = make_workspace({in.x.size(0), kGates * width}, in.x.options());
  Gemm::multiply_into(gates, {.a = in.x, .b = weights.input, .transpose_b = true});
  {
    const at::Tensor before = rows_in_workspace(in.from, state.hidden);
    Gemm::accumulate(gates, {.a = before, .b = weights.hidden, .transpose_b = true});
  }
  take_step(gates, weights,
            {.cells_before = &state.cells,
             .cells = state.cells,
             .hidden = state.hidden,
             .from = &in.from,
             .to = &in.to});
}

}  // namespace sotto::kernels
