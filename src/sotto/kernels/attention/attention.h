// Attention over packs. Self-attention: every frame sees the frames of its own utterance, all of
// them or those in a window around it. Cross-attention: queries of one pack see all keys of their
// utterance in another pack, as the tokens of a decoder see the frames of its encoder. N queries, M
// keys (N in self-attention), H heads of head size D / H, T_u frames of utterance u. Scores are
// scaled by 1 / sqrt(head size); they may have a term of relative positions. Arithmetic is fp32 for
// every type.
//
// Allocates, kTiled: forward y and the logsumexp; backward dqkv, or dq and dkv, and as workspace
// fp32 [H, N] and, for 16-bit types on the CPU, fp32 [N, D]. Scores exist only as tiles on the
// stack. On a GPU, FlashAttention or efficient attention is used for the shapes that they support,
// and allocates what attention_library.h declares. With relative positions, kernels of ours compute
// every shape; backward then also allocates the gradient of the positions, and as workspace on the
// CPU fp32 [sum of 2 T_u - 1, D] and [utterances, 2, D], with head sizes rounded up to multiples of
// 16; on a GPU fp32 [H, N], [H, P] and [slabs, 2, D] for P positions, and on tensor cores (16-bit
// types) [N, D] and [P, D + H], and in both directions [H, N] and [H, P]. There the order of sums
// varies; if results must be deterministic, P of [P, D + H] is the sum of 2 T_u - 1, and int32 [H,
// N / 64 + utterances] is added. Allocates, kPlain: forward y and the probabilities, and as
// workspace the scores of the longest utterance, fp32 [H, T, T], or on a GPU those of one head of
// consecutive utterances of the same length, if these are more; backward dqkv and the same
// workspace.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "sotto/kernels/base/packing.h"

namespace sotto::kernels {

struct Attention {
  enum class Variant {
    kTiled,  // the default: memory grows with N
    kPlain,  // materialises all scores, a baseline for comparison: memory grows with the squares of
             // T_u
  };

  struct Options {
    int64_t num_heads = 1;
    // Number of frames before and after itself that a frame sees; absent: its whole utterance.
    std::optional<int64_t> left = std::nullopt;
    std::optional<int64_t> right = std::nullopt;
    Variant variant = Variant::kTiled;
  };

  // Largest head size: tiles on the stack have this capacity.
  static constexpr int64_t kMaxHeadSize = 256;

  struct Result {
    at::Tensor y;  // [N, D], type of the inputs
    // The part of the softmax that backward needs. kTiled: the logsumexp of the scaled scores, [H,
    // N] fp32 (efficient attention: padded).
    // kPlain: the probabilities, [sum over utterances of H T_u T_u], type of qkv; utterance by
    // utterance, each [H, T_u, T_u] with one row per query.
    at::Tensor softmax;
  };

  // Relative positions in the form of Transformer-XL (Dai et al. 2019, section 3.3): the score of
  // query i and key j of a head is ((q_i + u) k_j + (q_i + v) p_{i - j}) / sqrt(head size). The
  // term of positions exists only inside of tiles. Requires kTiled; a window is allowed.
  struct Relative {
    // Added to by backward, except for `positions`.
    struct Gradients {
      at::Tensor& content_bias;   // [D] fp32
      at::Tensor& position_bias;  // [D] fp32
      at::Tensor positions = {};  // result of backward, of the shape and type of the positions
    };

    // [2 L - 1, D], type of qkv: p of distances from L - 1 down to -(L - 1). L is at least the
    // longest utterance; rows of distances that do not occur have no effect.
    const at::Tensor& positions;
    const at::Tensor& content_bias;   // u [D] fp32
    const at::Tensor& position_bias;  // v [D] fp32
    // Required by backward, not used by forward.
    Gradients* gradients = nullptr;
  };

  struct BackwardInputs {
    const at::Tensor& dy;       // [N, D]
    const at::Tensor& qkv;      // [N, 3 D]
    const at::Tensor& y;        // [N, D]; kPlain does not read it
    const at::Tensor& softmax;  // as in Result
  };

  // qkv [N, 3 D]: a row holds q, k and v of a frame, each [H, D / H].
  static Result forward(const at::Tensor& qkv, const Packing& packing, const Options& options,
                        const Relative* relative = nullptr);

  // Returns dqkv [N, 3 D], for the same options and relative positions as forward.
  static at::Tensor backward(const BackwardInputs& in, const Packing& packing,
                             const Options& options, const Relative* relative = nullptr);

  // Returns the number of pairs of a query and a key that it sees, over the whole pack: the cost is
  // proportional to it.
  static int64_t num_pairs(const Packing& packing, const Options& options);

  // The packs of cross-attention: the same utterances in the same order.
  struct Packs {
    const Packing& queries;
    const Packing& keys;
  };

  struct CrossInputs {
    const at::Tensor& q;   // [N, D]: a row holds q of a query, [H, D / H]
    const at::Tensor& kv;  // [M, 2 D]: a row holds k and v of a key, each [H, D / H]
  };

  struct CrossBackwardInputs {
    const at::Tensor& dy;       // [N, D]
    const at::Tensor& q;        // [N, D]
    const at::Tensor& kv;       // [M, 2 D]
    const at::Tensor& y;        // [N, D]
    const at::Tensor& softmax;  // as in Result
  };

  struct CrossGradients {
    at::Tensor dq;   // [N, D]
    at::Tensor dkv;  // [M, 2 D]
  };

  // Cross-attention requires kTiled and no window.
  static Result forward_cross(const CrossInputs& in, const Packs& packs, const Options& options);

  // Requires the same options as forward_cross.
  static CrossGradients backward_cross(const CrossBackwardInputs& in, const Packs& packs,
                                       const Options& options);
};

}  // namespace sotto::kernels
