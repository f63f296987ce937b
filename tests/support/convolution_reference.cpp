#include "support/convolution_reference.h"

namespace sotto::test {

ConvolutionTruth convolution_truth(const ConvolutionInputs& in, const kernels::Packing& packing) {
  const auto leaf_of = [](const at::Tensor& tensor) {
    return tensor.detach().to(at::kCPU, at::kDouble).clone().set_requires_grad(true);
  };
  const at::Tensor x = leaf_of(in.x), weight = leaf_of(in.weight);
  const int64_t groups = weight.size(0) / weight.size(1), taps = weight.size(2);
  std::vector<at::Tensor> parts;
  for (const at::Tensor& utterance : x.split_with_sizes(packing.lengths())) {
    const at::Tensor channels_first = utterance.t().unsqueeze(0);  // [1, D, T]
    const at::Tensor y = at::conv1d(channels_first, weight, {}, 1, taps / 2, 1, groups);
    // An even number of taps gives one output more than there are frames.
    parts.push_back(y.squeeze(0).t().narrow(0, 0, utterance.size(0)));
  }
  const at::Tensor y = at::cat(parts);
  y.backward(in.dy.to(at::kCPU, at::kDouble));
  return {.y = y.detach(), .dx = x.grad(), .grad_weight = weight.grad()};
}

}  // namespace sotto::test
