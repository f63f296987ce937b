// The parts of the LSTM kernel between two products, for its CPU and CUDA versions. A rows, H
// width. Internal to that kernel.
#pragma once

#include <cstdint>

namespace sotto::kernels::detail {

// From the products of the gates to the state after a step.
struct LstmForwardTask {
  int64_t num_rows = 0;  // A
  int64_t width = 0;     // H
  // [A, 4 H]: the sums of products on entry, the activated gates on return
  void* gates = nullptr;
  const float* input_bias = nullptr;   // [4 H]
  const float* hidden_bias = nullptr;  // [4 H]
  // Null at the first step, where cells are 0.
  const float* cells_before = nullptr;  // [R, H], or more rows
  float* cells = nullptr;               // [R, H]
  void* hidden = nullptr;               // [R, H]
  int64_t num_state_rows = 0;           // R
  // Rows of cells_before, and of cells and hidden; null: row i.
  const int32_t* from = nullptr;  // [A]
  const int32_t* to = nullptr;    // [A]
};

// From the gradient of a step's hidden states to that of its gates.
struct LstmBackwardTask {
  int64_t num_rows = 0;  // A
  int64_t width = 0;     // H
  // Number of first rows whose sequences have a later step.
  int64_t num_continued = 0;
  const void* dh = nullptr;             // [A, H]
  const float* cells = nullptr;         // [A, H]
  const float* cells_before = nullptr;  // [A, H]; null at the first step
  // [A, 4 H]: the activated gates on entry, the gradients of their sums on return
  void* gates = nullptr;
  // [A, H]: the gradient of the cells from the later step on entry, for the earlier one on return
  float* d_cells = nullptr;
};

}  // namespace sotto::kernels::detail
