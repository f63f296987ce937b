// Common code of the CPU versions of kernels: selection of the element type, and distribution of
// work among the cores so that no result depends on their number.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <initializer_list>

#include "sotto/core/error.h"
#include "sotto/kernels/base/kernel.h"
#include "sotto/kernels/simd/simd.h"

namespace sotto::kernels {

// Calls body with a value of the tensor's element type: body(float{}), body(c10::BFloat16{}) or
// body(c10::Half{}).
template <class Body>
void with_element_type(const at::Tensor& tensor, Body body) {
  switch (tensor.scalar_type()) {
    case at::kFloat: return body(float{});
    case at::kBFloat16: return body(c10::BFloat16{});
    case at::kHalf: return body(c10::Half{});
    default: SOTTO_ASSERT(false, "no kernel for {}", c10::toString(tensor.scalar_type()));
  }
}

// Below this many elements, waking a thread costs more than the work.
inline constexpr int64_t kElementsPerTask = 16 * 1024;

// Calls body(begin, end) for ranges of rows on all cores. Rows must not depend on each other.
template <class Body>
void parallel_rows(int64_t num_rows, int64_t width, Body body) {
  const int64_t grain = std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, width));
  at::parallel_for(0, num_rows, grain, body);
}

// Calls body(slab, first_row, end_row) for every slab, on all cores.
template <class Body>
void parallel_slabs(int64_t num_rows, Body body) {
  const int64_t slabs = num_row_slabs(num_rows);
  at::parallel_for(0, slabs, 1, [&](int64_t begin, int64_t end) {
    for (int64_t slab = begin; slab < end; ++slab) {
      body(slab, num_rows * slab / slabs, num_rows * (slab + 1) / slabs);
    }
  });
}

// Calls body(task, worker) for every task, each on whichever core is free: for tasks of unequal
// size, the largest first. `num_elements` is the total number of elements of all tasks. Tasks must
// not depend on each other; the tasks of a worker, of which there are at most `max_workers`, run
// one after another.
template <class Body>
void parallel_tasks_of_workers(int64_t num_tasks, int64_t num_elements, int64_t max_workers,
                               Body body) {
  std::atomic<int64_t> next = 0;
  const int64_t num_workers = std::min({num_tasks, max_workers, int64_t{at::get_num_threads()},
                                        num_elements / kElementsPerTask + 1});
  at::parallel_for(0, num_workers, 1, [&](int64_t worker, int64_t) {
    for (int64_t task = next++; task < num_tasks; task = next++) body(task, worker);
  });
}

// Calls body(task) in the same way, for tasks without memory of their own.
template <class Body>
void parallel_tasks(int64_t num_tasks, int64_t num_elements, Body body) {
  parallel_tasks_of_workers(num_tasks, num_elements, num_tasks,
                            [&](int64_t task, int64_t) { body(task); });
}

// Adds partial sums [slabs, vectors, width], slab by slab, to `vectors` gradients of `width` each.
inline void add_slabs(const float* partial, std::initializer_list<float*> gradients,
                      int64_t num_slabs, int64_t width) {
  for (int64_t slab = 0; slab < num_slabs; ++slab) {
    for (float* gradient : gradients) {
      simd::for_each_block(width, [&](int64_t i, auto n) {
        simd::store(gradient + i, simd::load(gradient + i, n) + simd::load(partial + i, n), n);
      });
      partial += width;
    }
  }
}

}  // namespace sotto::kernels
