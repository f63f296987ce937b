// Greedy CTC decoding: the likeliest label of every frame, with repeats merged and blanks removed.
// N frames of B utterances, V entries of the vocabulary.
//
// Allocates: as workspace int32 [N]; with CUDA the same on the host, which waits for the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "sotto/kernels/base/packing.h"

namespace sotto::kernels {

struct CtcGreedy {
  struct Label {
    int32_t label;
    int64_t frame;  // in the utterance, the first of the merged frames
    // Frames that it spans, where a network says so.
    int64_t num_frames = 1;

    friend bool operator==(const Label&, const Label&) = default;
  };

  // Returns the labels of each utterance for logits [N, V]. Of equal logits the first wins; a frame
  // with only NaN counts as blank. A dry run returns none.
  static std::vector<std::vector<Label>> decode(const at::Tensor& logits, const Packing& packing,
                                                int64_t blank = 0);
};

}  // namespace sotto::kernels
