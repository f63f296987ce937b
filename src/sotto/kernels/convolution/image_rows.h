// How the CPU versions of ImageWindows and ImageDepthwise walk over frames. Internal to those
// kernels.
#pragma once

#include <cstdint>

#include "sotto/kernels/base/packing.h"
#include "sotto/kernels/simd/cpu_kernel.h"

namespace sotto::kernels {

// A frame of an utterance of a pack.
struct ImageRow {
  int64_t row;        // in the pack
  int64_t utterance;  // in the pack
  int64_t frame;      // in the utterance
};

// Calls body(row) for the rows begin .. end of a pack in ascending order.
template <class Body>
void walk_image_rows(const Packing& packing, int64_t begin, int64_t end, Body body) {
  int64_t u = packing.utterance_of(begin);
  for (int64_t row = begin; row < end; ++row) {
    while (row >= packing.starts()[static_cast<size_t>(u) + 1]) ++u;
    body(ImageRow{
        .row = row, .utterance = u, .frame = row - packing.starts()[static_cast<size_t>(u)]});
  }
}

// Calls body(row) for all rows of a pack on all cores; `width` is the work of a row.
template <class Body>
void for_each_image_row(const Packing& packing, int64_t width, Body body) {
  parallel_rows(packing.num_frames(), width,
                [&](int64_t begin, int64_t end) { walk_image_rows(packing, begin, end, body); });
}

}  // namespace sotto::kernels
