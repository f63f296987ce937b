#include "sotto/kernels/cuda/cuda_rows.cuh"

namespace sotto::kernels::detail {

namespace {

// A token outside the table is a bug of the caller: a trap ends the use of the device instead of
// reading invalid memory.
__device__ int32_t checked(int32_t id, int64_t num_entries) {
  if (id < 0 || id >= num_entries) __trap();
  return id;
}

template <class T, int kSize>
__global__ void forward_kernel(const int32_t* ids, CudaArray table, T* y, int64_t num_tokens) {
  const T* entries = static_cast<const T*>(table.data);
  for_each_row(num_tokens, [&](int64_t token) {
    const int64_t id = checked(ids[token], table.rows);
    for_each_column<kSize>(table.width, [&](int64_t column) {
      store(y + token * table.width + column, load<kSize>(entries + id * table.width + column));
    });
  });
}

// Calls body(token), in order, for the tokens from `begin` to `end` that equal `id`, until it
// returns false. Called by all lanes of a warp together: each examines some of the tokens.
template <class Body>
__device__ void for_each_token_of(int32_t id, const int32_t* ids, int64_t begin, int64_t end,
                                  Body body) {
  constexpr int kAtOnce = 4;  // loads in flight
  const auto lane = static_cast<int>(threadIdx.x);
  for (int64_t first = begin; first < end; first += kAtOnce * kWarp) {
    int32_t seen[kAtOnce];
    for (int i = 0; i < kAtOnce; ++i) {
      const int64_t token = first + i * kWarp + lane;
      seen[i] = token < end ? ids[token] : -1;
    }
    for (int i = 0; i < kAtOnce; ++i) {
      unsigned indices = __ballot_sync(kWholeWarp, seen[i] == id);
      for (; indices != 0; indices &= indices - 1) {
        if (!body(first + i * kWarp + __ffs(static_cast<int>(indices)) - 1)) return;
      }
    }
  }
}

// One warp for each token and strip of columns: the warp of an entry's first token adds the
// gradients of all its tokens in order, the others do nothing.
template <class G, class T, int kSize>
__global__ void backward_kernel(const T* dy, const int32_t* ids, int64_t num_tokens,
                                CudaArray grad_table) {
  const int64_t token = blockIdx.x;
  const int64_t width = grad_table.width;
  const int64_t column = static_cast<int64_t>(blockIdx.y) * kWarp * kSize + threadIdx.x * kSize;
  const bool is_inside = column < width;
  const int32_t id = checked(ids[token], grad_table.rows);
  bool is_first = true;
  for_each_token_of(id, ids, 0, token, [&](int64_t) { return is_first = false; });
  if (!is_first) return;

  G* to = static_cast<G*>(grad_table.data) + id * width + column;
  Vector<float, kSize> sums = zero_vector<float, kSize>();
  if (is_inside) {
    const Vector<G, kSize> before = load<kSize>(to);
    for (int i = 0; i < kSize; ++i) sums.values[i] = before[i];
  }
  for_each_token_of(id, ids, token, num_tokens, [&](int64_t same) {
    if (is_inside) {
      const Vector<T, kSize> gradient = load<kSize>(dy + same * width + column);
      for (int i = 0; i < kSize; ++i) sums.values[i] += gradient[i];
    }
    return true;
  });
  if (!is_inside) return;
  Vector<G, kSize> after;
  for (int i = 0; i < kSize; ++i) after.set(i, sums[i]);
  store(to, after);
}

template <class G, class T, int kSize>
void launch_backward(const CudaArray& dy, const int32_t* ids, const CudaArray& grad_table,
                     cudaStream_t stream) {
  const int64_t strips = (dy.width + kWarp * kSize - 1) / (kWarp * kSize);
  const dim3 blocks(static_cast<unsigned>(dy.rows), static_cast<unsigned>(strips));
  backward_kernel<G, T, kSize>
      <<<blocks, kWarp, 0, stream>>>(data_of<T>(dy), ids, dy.rows, grad_table);
}

}  // namespace

void embedding_forward_cuda(const int32_t* ids, const CudaArray& table, const CudaArray& y,
                            void* stream) {
  with_cuda_type(y.type, [&](auto zero) {
    with_vector_size(fits_vectors(y.width, {table.data, y.data}), [&](auto size) {
      using T = decltype(zero);
      const RowGrid grid = row_grid(y.rows, (y.width + size - 1) / size);
      forward_kernel<T, size><<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(
          ids, table, data_of<T>(y), y.rows);
    });
  });
  check_launch("embedding forward");
}

void embedding_backward_cuda(const CudaArray& dy, const int32_t* ids, const CudaArray& grad_table,
                             void* stream) {
  auto* on = static_cast<cudaStream_t>(stream);
  with_cuda_type(dy.type, [&](auto zero) {
    with_vector_size(fits_vectors(dy.width, {dy.data, grad_table.data}), [&](auto size) {
      using T = decltype(zero);
      if (grad_table.type == ElementType::kFloat) {
        launch_backward<float, T, size>(dy, ids, grad_table, on);
      } else {
        launch_backward<T, T, size>(dy, ids, grad_table, on);
      }
    });
  });
  check_launch("embedding backward");
}

}  // namespace sotto::kernels::detail
