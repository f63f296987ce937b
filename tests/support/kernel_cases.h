// The kernel table: one row for every kernel, with how to run it forward and backward and what
// double precision and autograd say. The tests of values, memory and devices run over all rows;
// `make check` refuses a kernel without one.
#pragma once

#include <ATen/ATen.h>

#include <ostream>
#include <string>
#include <vector>

#include "sotto/kernels/base/packing.h"

namespace sotto::test {

struct Shape {
  int64_t rows;
  int64_t width;
};

struct Input {
  enum class Kind { kData, kFloat, kIndex };

  Kind kind;
  at::Tensor values;  // double, or int32 for an index
};

using Tensors = std::vector<at::Tensor>;

struct KernelCase {
  std::string kernel;
  bool has_cuda = false;
  std::vector<Input> (*make_inputs)(const Shape& shape);
  // Forward and backward of ours; every result that a caller would see.
  Tensors (*run)(const Tensors& inputs, const kernels::Packing& packing);
  // The same results from double inputs by ATen and autograd.
  Tensors (*reference)(const Tensors& inputs, const kernels::Packing& packing);
};

// How a failing test prints its row.
inline void PrintTo(const KernelCase& row, std::ostream* out) {
  *out << row.kernel;
}

const std::vector<KernelCase>& kernel_cases();
// Those with a CUDA version.
std::vector<KernelCase> cuda_kernel_cases();

// Shapes with whole vectors, tails, one row, and enough rows for several slabs.
const std::vector<Shape>& kernel_shapes();

// Utterances of uneven lengths that fill `rows` frames.
std::vector<int64_t> lengths_for(int64_t rows);

// The inputs in the type and on the device under test: data in `type`, the others as they are.
Tensors materialise(const std::vector<Input>& inputs, at::ScalarType type,
                    const at::Device& device);

// The inputs for the reference: what materialise() rounded them to, in double.
Tensors materialise_reference(const std::vector<Input>& inputs, at::ScalarType type);

}  // namespace sotto::test
