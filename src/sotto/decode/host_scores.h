// Scores on the host, for searches that run there.
#pragma once

#include <ATen/ATen.h>

#include "sotto/kernels/base/kernel.h"

namespace sotto::decode {

// Returns logits [N, V] as fp32 on the host. On Meta their memory: a copy is part of the arena
// where the host's memory is the device's.
inline at::Tensor host_scores(const at::Tensor& logits) {
  if (!kernels::is_dry(logits)) return logits.cpu().to(at::kFloat).contiguous();
  return kernels::is_for_cuda(logits) ? logits : logits.to(at::kFloat);
}

// Returns room for fp32 values on the host. On Meta, what of it is part of the arena.
inline at::Tensor host_room(int64_t size, const at::Tensor& like) {
  if (!kernels::is_dry(like)) return at::empty({size}, at::kFloat);
  return at::empty({kernels::is_for_cuda(like) ? 0 : size}, like.options().dtype(at::kFloat));
}

}  // namespace sotto::decode
