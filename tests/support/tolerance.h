// How far a result may be from the truth, relative to the largest value of the tensor. All
// tolerances stand here.
#pragma once

#include <ATen/ATen.h>

namespace sotto::test {

// Of a kernel's result in its type, against double precision.
inline double kernel_tolerance(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return 4e-6;
    case at::kHalf:
      return 2e-3;  // half a unit in the last place is 4.9e-4; inputs of backward are rounded too
    case at::kBFloat16: return 1e-2;  // likewise 3.9e-3
    default: return 0.0;
  }
}

// Of a CUDA kernel against the CPU's in the same type: two roundings that may fall to different
// sides.
inline double cuda_tolerance(at::ScalarType type) {
  return 2.0 * kernel_tolerance(type);
}

// Of 50 steps of AdamW in fp32 against double precision, and of some with 8-bit moments against the
// same scheme written otherwise, for the few values with a code that fell to the other side.
inline constexpr double kAdamWTolerance = 1e-6;
inline constexpr double kCodedAdamWTolerance = 1e-3;

// Of the numbers of 8-bit moments, relative to each: fp32 in two roundings, theirs in three.
inline constexpr double kMomentMapTolerance = 3e-7;

// Of gradients in bf16 against those in fp32 of the same step: half a unit in the last place, and
// where two products add to one gradient once more.
inline constexpr double kBf16GradientTolerance = 0x1p-8 * 1.5;

// Of a learning rate, relative to its peak: the same formula in double, in another order.
inline double schedule_tolerance() {
  return 1e-14;
}

// Of log-mel features in fp32 against double precision, as a difference of logarithms: a filter far
// below the loudest of its frame has few digits left. torchaudio in single precision is 4.1e-5 off
// on the same utterances.
inline constexpr double kLogMelTolerance = 5e-5;

// Of a Fourier transform in fp32 against double precision, relative to the largest frequency: sums
// of up to a hundred terms in a row where a size has such a prime.
inline constexpr double kFourierTolerance = 5e-7;

// Of log-mel features against other implementations in single precision, relative to the largest of
// an utterance.
inline constexpr double kFeatureTolerance = 1e-4;

// Of CrossEntropy in chunks of another size, in fp32: the same rows through products of other
// shapes, whose sums ATen may take in another order; and the weight's gradient, where the order is
// another too.
inline constexpr double kChunkTolerance = 1e-6;
inline constexpr double kChunkSumTolerance = 1e-5;

// Of the transducer loss of an utterance of 600 frames, in fp32: logits and their log-probabilities
// are rounded at every step.
inline constexpr double kLongLatticeTolerance = 1e-5;

// Of 20 losses of a run on a GPU against another in fp32: sums in another order, amplified by 20
// updates.
inline constexpr double kCudaCurveTolerance = 1e-4;

// The same where products are of 11 bits or fewer.
inline constexpr double kHalfCurveTolerance = 5e-2;

// Of a whole network on a GPU against another implementation in fp32, by the bits of its products:
// logits, and gradients, which pass through all layers twice. The worst are those of query weights,
// where large terms cancel: measured 4.3e-2 in fp16 and 1.7e-1 in bf16, all others below half that.
struct NetworkTolerance {
  double logits, gradients;
};
inline NetworkTolerance network_tolerance(int product_bits) {
  switch (product_bits) {
    case 24: return {.logits = 1e-4, .gradients = 1e-4};
    case 11: return {.logits = 5e-3, .gradients = 6e-2};  // fp16 and TF32
    case 8: return {.logits = 3e-2, .gradients = 2e-1};   // bf16
    default: return {};
  }
}

// Largest difference over largest value.
inline double relative_error(const at::Tensor& ours, const at::Tensor& truth) {
  const at::Tensor a = ours.to(at::kCPU, at::kDouble);
  const at::Tensor b = truth.to(at::kCPU, at::kDouble);
  if (b.numel() == 0) return 0.0;
  const double largest = std::max(b.abs().max().item<double>(), 1e-30);
  const double difference = (a - b).abs().max().item<double>();
  return difference / largest;  // a NaN stays one and fails every comparison
}

// Largest difference of losses, each over its own value or 1: one near 0 is as good as 0.
inline double loss_error(const at::Tensor& ours, const at::Tensor& truth) {
  const at::Tensor a = ours.to(at::kCPU, at::kDouble);
  const at::Tensor b = truth.to(at::kCPU, at::kDouble);
  return ((a - b).abs() / at::clamp_min(b.abs(), 1.0)).max().item<double>();
}

}  // namespace sotto::test
