#include "sotto/kernels/cuda/cuda_rows.cuh"
#include "sotto/kernels/recurrent/lstm_task.h"

namespace sotto::kernels::detail {

namespace {

__device__ float sigmoid(float x) {
  return 1.0f / (1.0f + __expf(-x));
}

// Returns the row of the state that row `row` of a step uses. One outside the state is a bug of the
// caller: a trap ends the use of the device instead of writing elsewhere.
__device__ int64_t state_row(const int32_t* rows, int64_t row, int64_t num_state_rows) {
  const int64_t used = rows == nullptr ? row : int64_t{rows[row]};
  if (used < 0 || used >= num_state_rows) __trap();
  return used;
}

// The four parts of a row of gates [4 H], from a column on.
template <class T, int kSize>
struct GateVectors {
  Vector<T, kSize> i, f, g, o;
};

template <int kSize, class T>
__device__ GateVectors<T, kSize> load_gates(const T* from, int64_t width) {
  return {load<kSize>(from), load<kSize>(from + width), load<kSize>(from + 2 * width),
          load<kSize>(from + 3 * width)};
}

template <int kSize, class T>
__device__ void store_gates(T* to, int64_t width, const GateVectors<T, kSize>& gates) {
  store(to, gates.i);
  store(to + width, gates.f);
  store(to + 2 * width, gates.g);
  store(to + 3 * width, gates.o);
}

template <class T, int kSize>
__global__ void forward_kernel(LstmForwardTask task) {
  const int64_t width = task.width;
  for_each_row(task.num_rows, [&](int64_t row) {
    const int64_t from = state_row(task.from, row, task.num_state_rows);
    const int64_t to = state_row(task.to, row, task.num_state_rows);
    for_each_column<kSize>(width, [&](int64_t column) {
      T* place = static_cast<T*>(task.gates) + row * 4 * width + column;
      GateVectors<T, kSize> gates = load_gates<kSize>(place, width);
      const auto first = load_gates<kSize>(task.input_bias + column, width);
      const auto second = load_gates<kSize>(task.hidden_bias + column, width);
      Vector<float, kSize> cells = zero_vector<float, kSize>();
      if (task.cells_before != nullptr)
        cells = load<kSize>(task.cells_before + from * width + column);
      Vector<T, kSize> hidden;
      for (int n = 0; n < kSize; ++n) {
        const float i = sigmoid(gates.i[n] + (first.i[n] + second.i[n]));
        const float f = sigmoid(gates.f[n] + (first.f[n] + second.f[n]));
        const float g = tanhf(gates.g[n] + (first.g[n] + second.g[n]));
        const float o = sigmoid(gates.o[n] + (first.o[n] + second.o[n]));
        const float cell = i * g + f * cells[n];
        gates.i.set(n, i);
        gates.f.set(n, f);
        gates.g.set(n, g);
        gates.o.set(n, o);
        cells.set(n, cell);
        hidden.set(n, o * tanhf(cell));
      }
      store_gates(place, width, gates);
      store(task.cells + to * width + column, cells);
      store(static_cast<T*>(task.hidden) + to * width + column, hidden);
    });
  });
}

template <class T, int kSize>
__global__ void backward_kernel(LstmBackwardTask task) {
  const int64_t width = task.width;
  for_each_row(task.num_rows, [&](int64_t row) {
    for_each_column<kSize>(width, [&](int64_t column) {
      const int64_t at = row * width + column;
      T* place = static_cast<T*>(task.gates) + row * 4 * width + column;
      GateVectors<T, kSize> gates = load_gates<kSize>(place, width);
      const auto dh = load<kSize>(static_cast<const T*>(task.dh) + at);
      const auto cells = load<kSize>(task.cells + at);
      Vector<float, kSize> before = zero_vector<float, kSize>();
      if (task.cells_before != nullptr) before = load<kSize>(task.cells_before + at);
      Vector<float, kSize> d_cells = zero_vector<float, kSize>();
      if (row < task.num_continued) d_cells = load<kSize>(task.d_cells + at);
      for (int n = 0; n < kSize; ++n) {
        const float i = gates.i[n], f = gates.f[n], g = gates.g[n], o = gates.o[n];
        const float bent = tanhf(cells[n]);
        const float d_cell = d_cells[n] + dh[n] * o * (1.0f - bent * bent);
        gates.i.set(n, d_cell * g * i * (1.0f - i));
        gates.f.set(n, d_cell * before[n] * f * (1.0f - f));
        gates.g.set(n, d_cell * i * (1.0f - g * g));
        gates.o.set(n, dh[n] * bent * o * (1.0f - o));
        d_cells.set(n, d_cell * f);
      }
      store_gates(place, width, gates);
      store(task.d_cells + at, d_cells);
    });
  });
}

}  // namespace

void lstm_forward_cuda(const LstmForwardTask& task, ElementType type, void* stream) {
  const bool fits = fits_vectors(task.width, {task.gates, task.input_bias, task.hidden_bias,
                                              task.cells_before, task.cells, task.hidden});
  with_cuda_type(type, [&](auto zero) {
    with_vector_size(fits, [&](auto size) {
      using T = decltype(zero);
      const RowGrid grid = row_grid(task.num_rows, (task.width + size - 1) / size);
      forward_kernel<T, size>
          <<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(task);
    });
  });
  check_launch("lstm forward");
}

void lstm_backward_cuda(const LstmBackwardTask& task, ElementType type, void* stream) {
  const bool fits =
      fits_vectors(task.width, {task.gates, task.dh, task.cells, task.cells_before, task.d_cells});
  with_cuda_type(type, [&](auto zero) {
    with_vector_size(fits, [&](auto size) {
      using T = decltype(zero);
      const RowGrid grid = row_grid(task.num_rows, (task.width + size - 1) / size);
      backward_kernel<T, size>
          <<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(task);
    });
  });
  check_launch("lstm backward");
}

}  // namespace sotto::kernels::detail
