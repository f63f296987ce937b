// Tensors and packs for CUDA sources, which include no LibTorch header: this keeps their compile
// time at seconds.
#pragma once

#include <cstdint>

#include "sotto/kernels/base/dropout_mask.h"
#include "sotto/kernels/base/element_type.h"

namespace sotto::kernels {

// A contiguous tensor: [rows, width]; a single row if it is not a matrix.
struct CudaArray {
  void* data = nullptr;
  int64_t rows = 0;
  int64_t width = 0;
  ElementType type = ElementType::kFloat;

  int64_t num_elements() const { return rows * width; }
};

// A Packing on the device.
struct CudaPack {
  const int32_t* starts = nullptr;  // [utterances + 1], cumulative lengths from 0
  const uint64_t* keys = nullptr;   // [utterances], keys of random draws
  int64_t num_utterances = 0;
  int64_t num_frames = 0;
  int64_t max_length = 0;
};

// A dropout mask over the rows of a pack.
struct CudaDropout {
  CudaPack pack;
  DropoutRule rule;
};

}  // namespace sotto::kernels
