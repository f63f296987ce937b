// Common code of the shared parts of kernels (x.cpp): checks, workspace, the dry path and dispatch
// to the device. CONTRIBUTING.md, "Adding a kernel", describes the contract of a kernel.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "sotto/core/error.h"
#include "sotto/device/target.h"
#include "sotto/kernels/base/cost.h"
#include "sotto/kernels/base/cuda_array.h"
#include "sotto/kernels/base/packing.h"

// SOTTO_CUDA_ENTRY stands before the declaration of a function of an x_cuda.cu; CMakeLists.txt
// defines it. A build without CUDA links without these functions, because there it makes the
// reference weak. It never calls them: each takes a stream, and current_cuda_stream() throws.

namespace sotto::kernels {

// Returns whether this is a dry run: tensors without storage. Allocations happen, arithmetic does
// not.
inline bool is_dry(const at::Tensor& tensor) {
  return tensor.is_meta();
}

// Returns whether tensors of the device are on a GPU, or represent one in a dry run.
inline bool is_for_cuda(const at::Device& device) {
  return device.is_cuda() || (device.is_meta() && device::current_target().is_cuda());
}
inline bool is_for_cuda(const at::Tensor& tensor) {
  return is_for_cuda(tensor.device());
}

// Returns the target by which the tensor's kernels are selected: the active target, or the card
// that it is on.
const device::Target& target_of(const at::Tensor& tensor);

// Convert tensors and packs for a CUDA source. An undefined tensor becomes one without data.
CudaArray cuda_array(const at::Tensor& tensor);
CudaPack cuda_pack(const Packing& packing);

// Allocates a tensor for the duration of the kernel's call, counted as workspace.
at::Tensor make_workspace(at::IntArrayRef sizes, const at::TensorOptions& options);

// Allocates a result of the type and device of `like`.
at::Tensor make_result(at::IntArrayRef sizes, const at::Tensor& like);
at::Tensor make_float_result(at::IntArrayRef sizes, const at::Tensor& like);

// Sums over rows are computed per slab, then over the slabs in order: the number of slabs, and with
// it the result and the workspace, depends only on the number of rows, not on the cores. On a GPU
// each block processes one slab: 256 slabs give two to each of 132 multiprocessors, and from 4,224
// rows on each has one. Writing and adding the sums of fewer than 32 rows would take as long as
// reading the rows.
inline int64_t num_row_slabs(int64_t num_rows) {
  return std::clamp<int64_t>(num_rows / 32, 1, 256);
}

double bytes_of(const at::Tensor& tensor);

// Shape checks: [rows, width], contiguous, of a type that kernels support; [width] in fp32 for
// parameters of norms.
void check_rows(const at::Tensor& x, std::string_view name);
void check_same(const at::Tensor& a, const at::Tensor& b, std::string_view name);
void check_float_vector(const at::Tensor& v, int64_t size, std::string_view name);

}  // namespace sotto::kernels
