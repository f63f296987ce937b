// Arguments of the CUDA versions of norms. N rows, D width; for GroupNorm a pack of B utterances
// and G groups.
#pragma once

#include <cstdint>

#include "sotto/kernels/base/cuda_array.h"

namespace sotto::kernels {

// LayerNorm and RmsNorm; the latter has no beta and no mean.
struct RowNormForward {
  CudaArray x;      // [N, D]
  CudaArray y;      // [N, D]
  CudaArray gamma;  // [D]
  CudaArray beta;   // [D]
  CudaArray mean;   // [N]
  CudaArray rstd;   // [N]
  float epsilon = 0.0f;
};

struct RowNormBackward {
  CudaArray dy;          // [N, D]
  CudaArray x;           // [N, D]
  CudaArray residual;    // [N, D]; without data: none
  CudaArray dx;          // [N, D]
  CudaArray mean;        // [N]
  CudaArray rstd;        // [N]
  CudaArray gamma;       // [D]
  CudaArray partial;     // [slabs, 1 or 2, D], workspace
  CudaArray grad_gamma;  // [D], added to
  CudaArray grad_beta;   // [D], added to
  int64_t num_slabs = 0;
};

// GroupNorm's statistics are computed over pieces of this many frames, in parallel, then over the
// pieces of an utterance. A piece belongs to one utterance, whose last piece may be shorter.
inline constexpr int64_t kGroupNormPiece = 256;

// Returns the index of the first piece of an utterance. Some indices stay unused, which avoids a
// table of offsets.
constexpr int64_t first_piece_of(int64_t utterance, int64_t first_frame) {
  return first_frame / kGroupNormPiece + utterance;
}

struct GroupNormForward {
  CudaArray x;       // [N, D]
  CudaArray y;       // [N, D]
  CudaArray gamma;   // [D]
  CudaArray beta;    // [D]
  CudaArray mean;    // [B, G]
  CudaArray rstd;    // [B, G]
  CudaArray pieces;  // [pieces, D], workspace
  double epsilon = 0.0;
};

struct GroupNormBackward {
  CudaArray dy;           // [N, D]
  CudaArray x;            // [N, D]
  CudaArray dx;           // [N, D]
  CudaArray mean;         // [B, G]
  CudaArray rstd;         // [B, G]
  CudaArray gamma;        // [D]
  CudaArray pieces;       // [pieces, 2 D], workspace
  CudaArray partial;      // [B, 2, D], workspace: sums over frames for gamma, then for beta
  CudaArray group_means;  // [B, 2 G], workspace
  CudaArray grad_gamma;   // [D], added to
  CudaArray grad_beta;    // [D], added to
};

}  // namespace sotto::kernels
