#include "sotto/kernels/recurrent/lstm.h"
#include "sotto/kernels/recurrent/lstm_task.h"
#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/simd_math.h"

namespace sotto::kernels::detail {

namespace {

using simd::Lanes;

// By the exponential, with an error of 1.2e-7 at most.
[[gnu::always_inline]] inline Lanes tangent(const Lanes& x) {
  return 2.0f * simd::sigmoid(2.0f * x) - 1.0f;
}

// The four parts of a row of gates [4 H].
template <class T>
struct GateRow {
  T* i;
  T* f;
  T* g;
  T* o;

  GateRow(T* row, int64_t width) : i(row), f(row + width), g(row + 2 * width), o(row + 3 * width) {}
};

// Returns the row of the state that row `row` of a step uses.
int64_t state_row(const int32_t* rows, int64_t row, int64_t num_state_rows) {
  const int64_t used = rows == nullptr ? row : int64_t{rows[row]};
  SOTTO_ASSERT(used >= 0 && used < num_state_rows, "row {} of a state of {}", used, num_state_rows);
  return used;
}

template <class T>
void lstm_forward_row(const LstmForwardTask& task, int64_t row) {
  const int64_t width = task.width;
  const GateRow<T> gates(static_cast<T*>(task.gates) + row * 4 * width, width);
  const GateRow<const float> a(task.input_bias, width), b(task.hidden_bias, width);
  const int64_t from = state_row(task.from, row, task.num_state_rows);
  const int64_t to = state_row(task.to, row, task.num_state_rows);
  const float* before = task.cells_before == nullptr ? nullptr : task.cells_before + from * width;
  float* cells = task.cells + to * width;
  T* hidden = static_cast<T*>(task.hidden) + to * width;
  simd::for_each_block(width, [&](int64_t at, auto n) {
    const auto sum = [&](const T* gate, const float* first, const float* second) {
      return simd::load(gate + at, n) + (simd::load(first + at, n) + simd::load(second + at, n));
    };
    const Lanes i = simd::sigmoid(sum(gates.i, a.i, b.i));
    const Lanes f = simd::sigmoid(sum(gates.f, a.f, b.f));
    const Lanes g = tangent(sum(gates.g, a.g, b.g));
    const Lanes o = simd::sigmoid(sum(gates.o, a.o, b.o));
    Lanes cell = i * g;
    if (before != nullptr) cell += f * simd::load(before + at, n);
    simd::store(gates.i + at, i, n);
    simd::store(gates.f + at, f, n);
    simd::store(gates.g + at, g, n);
    simd::store(gates.o + at, o, n);
    simd::store(cells + at, cell, n);
    simd::store(hidden + at, o * tangent(cell), n);
  });
}

template <class T>
void lstm_backward_row(const LstmBackwardTask& task, int64_t row) {
  const int64_t width = task.width;
  const GateRow<T> gates(static_cast<T*>(task.gates) + row * 4 * width, width);
  const T* dh = static_cast<const T*>(task.dh) + row * width;
  const float* cells = task.cells + row * width;
  const float* before = task.cells_before == nullptr ? nullptr : task.cells_before + row * width;
  float* d_cells = task.d_cells + row * width;
  const bool is_continued = row < task.num_continued;
  simd::for_each_block(width, [&](int64_t at, auto n) {
    const Lanes i = simd::load(gates.i + at, n), f = simd::load(gates.f + at, n);
    const Lanes g = simd::load(gates.g + at, n), o = simd::load(gates.o + at, n);
    const Lanes bent = tangent(simd::load(cells + at, n));
    const Lanes gradient = simd::load(dh + at, n);
    Lanes d_cell = gradient * o * (1.0f - bent * bent);
    if (is_continued) d_cell += simd::load(d_cells + at, n);
    Lanes d_forget = 0.0f;
    if (before != nullptr) d_forget = d_cell * simd::load(before + at, n) * f * (1.0f - f);
    simd::store(gates.i + at, d_cell * g * i * (1.0f - i), n);
    simd::store(gates.f + at, d_forget, n);
    simd::store(gates.g + at, d_cell * i * (1.0f - g * g), n);
    simd::store(gates.o + at, gradient * bent * o * (1.0f - o), n);
    simd::store(d_cells + at, d_cell * f, n);
  });
}

// Elements of work per value of a row: four gates, each with an exponential.
constexpr int64_t kWorkPerValue = 16;

}  // namespace

void lstm_forward_cpu(const LstmForwardTask& task, const at::Tensor& gates) {
  with_element_type(gates, [&](auto zero) {
    using T = decltype(zero);
    parallel_rows(task.num_rows, task.width * kWorkPerValue, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) lstm_forward_row<T>(task, row);
    });
  });
}

void lstm_backward_cpu(const LstmBackwardTask& task, const at::Tensor& gates) {
  with_element_type(gates, [&](auto zero) {
    using T = decltype(zero);
    parallel_rows(task.num_rows, task.width * kWorkPerValue, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) lstm_backward_row<T>(task, row);
    });
  });
}

}  // namespace sotto::kernels::detail
