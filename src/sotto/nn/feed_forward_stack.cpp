#include "sotto/nn/feed_forward_stack.h"

#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/device/memory_scope.h"
#include "sotto/kernels/activation.h"
#include "sotto/kernels/column_sum.h"
#include "sotto/kernels/dropout.h"
#include "sotto/kernels/gemm.h"
#include "sotto/kernels/residual_add.h"

namespace sotto::nn {

namespace {

using device::Category;
using device::CategoryScope;
using device::MomentScope;
using device::Phase;
using kernels::ColumnSum;
using kernels::Dropout;
using kernels::Gelu;
using kernels::Gemm;
using kernels::LayerNorm;
using kernels::Packing;
using kernels::ResidualAdd;

// Makes parameters one after the other; each draws from a stream of its own.
class ParameterMaker {
 public:
  ParameterMaker(const FeedForwardOptions& options, const at::Device& device)
      : options_(options), device_(device) {}

  // [rows, columns] in the stack's type, normal with deviation 1 / sqrt(columns).
  Parameter matrix(int64_t rows, int64_t columns) {
    Parameter parameter = allocate({rows, columns}, options_.type);
    if (device_.is_meta()) return parameter;
    const RandomStream stream({.seed = options_.seed, .layer = ++count_});
    const float scale = 1.0f / std::sqrt(static_cast<float>(columns));
    // Through a buffer on the stack: a tensor here would be an allocation that the dry run does not
    // see.
    std::array<float, 1024> buffer = {};
    at::Tensor flat = parameter.value.view(-1);
    for (int64_t first = 0; first < flat.numel(); first += std::ssize(buffer)) {
      const int64_t count = std::min<int64_t>(std::ssize(buffer), flat.numel() - first);
      stream.fill_normal({buffer.data(), static_cast<size_t>(count)}, static_cast<uint64_t>(first));
      for (float& value : buffer) value *= scale;
      flat.narrow(0, first, count).copy_(at::from_blob(buffer.data(), {count}, at::kFloat));
    }
    return parameter;
  }

  Parameter vector(int64_t size, double value) {
    Parameter parameter = allocate({size}, at::kFloat);
    if (!device_.is_meta()) parameter.value.fill_(value);
    return parameter;
  }

 private:
  Parameter allocate(at::IntArrayRef sizes, at::ScalarType type) const {
    const auto on_device = at::TensorOptions().device(device_);
    Parameter parameter;
    {
      const CategoryScope category(Category::kWeights);
      parameter.value = at::empty(sizes, on_device.dtype(type));
    }
    const CategoryScope category(Category::kGradients);
    parameter.gradient = at::empty(sizes, on_device.dtype(at::kFloat));
    if (!device_.is_meta()) parameter.gradient.zero_();
    return parameter;
  }

  const FeedForwardOptions& options_;
  at::Device device_;
  uint64_t count_ = 0;
};

}  // namespace

FeedForwardStack::FeedForwardStack(const FeedForwardOptions& options, const at::Device& device)
    : options_(options) {
  ParameterMaker make(options, device);
  for (int64_t layer = 0; layer < options.num_layers; ++layer) {
    blocks_.push_back({.gamma = make.vector(options.width, 1.0),
                       .beta = make.vector(options.width, 0.0),
                       .weight1 = make.matrix(options.hidden, options.width),
                       .weight2 = make.matrix(options.width, options.hidden),
                       .bias1 = make.vector(options.hidden, 0.0),
                       .bias2 = make.vector(options.width, 0.0)});
  }
}

at::Tensor FeedForwardStack::forward(at::Tensor x, const Packing& packing, uint64_t step) {
  kept_.clear();
  for (size_t layer = 0; layer < blocks_.size(); ++layer) {
    const auto number = static_cast<int64_t>(layer);
    const MomentScope moment({.phase = Phase::kForward, .layer = number});
    const Block& block = blocks_[layer];
    Kept kept{.x = std::move(x)};
    compute_inside(block, options_.keep, kept);
    x = Gemm::multiply({.a = kept.activated,
                        .b = block.weight2.value,
                        .transpose_b = true,
                        .bias = &block.bias2.value});
    if (options_.keep == Keep::kBlockInputs) kept.activated.reset();
    Dropout::apply(x, packing, {.key = dropout_key(number, step), .probability = options_.dropout});
    ResidualAdd::accumulate(x, kept.x);
    kept_.push_back(std::move(kept));
  }
  return x;
}

at::Tensor FeedForwardStack::backward(at::Tensor dy, const Packing& packing, uint64_t step) {
  SOTTO_ASSERT(kept_.size() == blocks_.size(), "backward without a forward before it");
  for (size_t layer = blocks_.size(); layer-- > 0;) {
    const auto number = static_cast<int64_t>(layer);
    const MomentScope moment({.phase = Phase::kBackward, .layer = number});
    Kept kept = std::move(kept_.back());
    kept_.pop_back();
    if (options_.keep == Keep::kBlockInputs)
      compute_inside(blocks_[layer], Keep::kEverything, kept);
    at::Tensor masked_dy = Dropout::applied(
        dy, packing, {.key = dropout_key(number, step), .probability = options_.dropout});
    dy = backward_block(blocks_[layer], std::move(kept), std::move(dy), std::move(masked_dy));
  }
  return dy;
}

void FeedForwardStack::compute_inside(const Block& block, Keep keep, Kept& kept) const {
  kept.norm = LayerNorm::forward(kept.x, {.gamma = block.gamma.value, .beta = block.beta.value});
  kept.hidden = Gemm::multiply({.a = kept.norm.y,
                                .b = block.weight1.value,
                                .transpose_b = true,
                                .bias = &block.bias1.value});
  if (keep == Keep::kBlockInputs) kept.norm = {};
  kept.activated = Gelu::forward(kept.hidden);
  if (keep == Keep::kBlockInputs) kept.hidden.reset();
}

// Each tensor is released where it was used last: the peak is what is alive, and that is written
// here.
at::Tensor FeedForwardStack::backward_block(Block& block, Kept kept, at::Tensor dy,
                                            at::Tensor masked_dy) const {
  Gemm::accumulate(block.weight2.gradient,
                   {.a = masked_dy, .b = kept.activated, .transpose_a = true});
  ColumnSum::accumulate(block.bias2.gradient, masked_dy);
  kept.activated.reset();
  at::Tensor d_hidden = Gemm::multiply({.a = masked_dy, .b = block.weight2.value});  // [N, H]
  masked_dy.reset();
  Gelu::backward(d_hidden, kept.hidden);
  kept.hidden.reset();

  Gemm::accumulate(block.weight1.gradient, {.a = d_hidden, .b = kept.norm.y, .transpose_a = true});
  ColumnSum::accumulate(block.bias1.gradient, d_hidden);
  kept.norm.y.reset();
  at::Tensor d_norm = Gemm::multiply({.a = d_hidden, .b = block.weight1.value});  // [N, D]
  d_hidden.reset();

  at::Tensor dx = LayerNorm::backward({.dy = d_norm,
                                       .x = kept.x,
                                       .mean = kept.norm.mean,
                                       .rstd = kept.norm.rstd,
                                       .gamma = block.gamma.value},
                                      {.gamma = block.gamma.gradient, .beta = block.beta.gradient});
  ResidualAdd::accumulate(dx, dy);
  return dx;
}

void FeedForwardStack::zero_gradients() {
  for (Parameter* parameter : parameters()) {
    if (!parameter->gradient.is_meta()) parameter->gradient.zero_();
  }
}

std::vector<Parameter*> FeedForwardStack::parameters() {
  std::vector<Parameter*> all;
  for (Block& block : blocks_) {
    for (Parameter* parameter :
         {&block.gamma, &block.beta, &block.weight1, &block.weight2, &block.bias1, &block.bias2}) {
      all.push_back(parameter);
    }
  }
  return all;
}

RandomKey FeedForwardStack::dropout_key(int64_t layer, uint64_t step) const {
  return {.seed = options_.seed,
          .purpose = Purpose::kDropout,
          .step = step,
          .layer = static_cast<uint64_t>(layer)};
}

}  // namespace sotto::nn
