// Attention over packs. Self-attention: every frame sees the frames of its own utterance, all of
// them or those in a window around it. Cross-attention: queries of one pack see all keys of their
// utterance in another pack, as the tokens of a decoder see the frames of its encoder. N queries, M
// keys (N in self-attention), H heads of head size D / H, T_u frames of utterance u. Scores are
// scaled by 1 / sqrt(head size), then a bias may be added; arithmetic is fp32 for every type.
//
// Allocates, kTiled: forward y and the logsumexp; backward dqkv, or dq and dkv, and as workspace
// fp32 [H, N] and, for 16-bit types on the CPU, fp32 [N, D]. Scores exist only as tiles on the
// stack. On a GPU, FlashAttention or efficient attention is used for the shapes that they support,
// and allocates what attention_library.h declares; calls with a bias use our own kernel, which
// allocates what is listed above. Allocates, kPlain: forward y and the probabilities, and as
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

  // A bias that is added to the scaled scores, for example relative positions.
  struct Bias {
    // [sum over utterances of H T_u T_u], type of qkv, finite; same layout as the probabilities of
    // kPlain. Values outside of the window have no effect.
    const at::Tensor& values;
    // If not null, backward fills it with the gradient of the values, of the same shape and type.
    // Zero outside of the window. Not used by forward.
    at::Tensor* gradient = nullptr;
  };

  struct BackwardInputs {
    const at::Tensor& dy;       // [N, D]
    const at::Tensor& qkv;      // [N, 3 D]
    const at::Tensor& y;        // [N, D]; kPlain does not read it
    const at::Tensor& softmax;  // as in Result
  };

  // qkv [N, 3 D]: a row holds q, k and v of a frame, each [H, D / H].
  static Result forward(const at::Tensor& qkv, const Packing& packing, const Options& options,
                        const Bias* bias = nullptr);

  // Returns dqkv [N, 3 D], for the same options and bias as forward.
  static at::Tensor backward(const BackwardInputs& in, const Packing& packing,
                             const Options& options, const Bias* bias = nullptr);

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
