// Results of networks with a CTC head, for the step and for evaluation.
#pragma once

#include <utility>

#include "sotto/kernels/loss/ctc.h"
#include "sotto/models/model.h"

namespace sotto::models {

// Returns the losses of a network whose only term is CTC.
inline Losses ctc_losses(kernels::Ctc::Result result) {
  return {.terms = {std::move(result.loss)}, .infeasible = std::move(result.infeasible)};
}

// logits [N, V] of the pack.
inline Recognition ctc_recognition(const at::Tensor& logits, const kernels::Packing& packing,
                                   const kernels::Labels& labels, int64_t blank) {
  return {.losses = ctc_losses(kernels::Ctc::evaluate(
              logits, {.packing = packing, .labels = labels, .blank = blank})),
          .frames = FrameScores{.logits = logits, .packing = packing, .blank = blank}};
}

}  // namespace sotto::models
