// The likeliest label of every frame, read as CTC means it: repeats are one label, blanks are none.
// N frames of B utterances, V entries of the vocabulary.
//
// Allocates: as workspace int32 [N]; with CUDA the same on the host, for whose sake it waits for
// the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "sotto/kernels/base/packing.h"

namespace sotto::kernels {

struct CtcGreedy {
  struct Label {
    int32_t label;
    int64_t frame;  // of the utterance, the first of those that say it

    friend bool operator==(const Label&, const Label&) = default;
  };

  // The labels of each utterance for logits [N, V]. Of equal logits the first wins; a frame of
  // nothing but NaN counts as blank. A dry run finds none.
  static std::vector<std::vector<Label>> decode(const at::Tensor& logits, const Packing& packing,
                                                int64_t blank = 0);
};

}  // namespace sotto::kernels
