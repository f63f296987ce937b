// Subsampling over time and mel bins, forward and backward, beside ATen's convolutions over a
// padded batch: time, and the memory of both without parameters and features. For information.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <fmt/format.h>

#include <algorithm>

#include "bench_data.h"
#include "sotto/nn/fronts/image_subsampling.h"
#include "topics.h"

namespace sotto::bench {

namespace {

using kernels::Packing;
using nn::ImageSubsampling;
using nn::ImageSubsamplingKind;
using nn::ImageSubsamplingOptions;

struct SubsamplingData {
  SubsamplingData(const ImageSubsamplingOptions& network, const std::vector<int64_t>& lengths)
      : options(network), subsampling(store, "front", network) {
    store.allocate({});
    packings = subsampling.packings_from(Packing(lengths, at::kCPU));
    const Packing &frames = packings.front(), &rows = packings.back();
    x = random_values({frames.num_frames(), options.num_features}, at::kFloat);
    dy = random_values({rows.num_frames(), options.width}, at::kFloat);
    const int64_t utterances = frames.num_utterances();
    padded_x = at::zeros({utterances, 1, frames.max_length(), options.num_features});
    padded_dy = at::zeros({utterances, rows.max_length(), options.width});
    for (int64_t u = 0; u < utterances; ++u) {
      const auto part = [u](const at::Tensor& all, const Packing& packing) {
        const auto index = static_cast<size_t>(u);
        return all.narrow(0, packing.starts()[index], packing.lengths()[index]);
      };
      padded_x[u][0].narrow(0, 0, part(x, frames).size(0)).copy_(part(x, frames));
      padded_dy[u].narrow(0, 0, part(dy, rows).size(0)).copy_(part(dy, rows));
    }
    for (const nn::Parameter& parameter : store.parameters())
      weights.push_back(parameter.value.clone().set_requires_grad(true));
  }

  ImageSubsamplingOptions options;
  nn::ParameterStore store;
  ImageSubsampling subsampling;
  std::vector<Packing> packings;
  at::Tensor x, dy;                 // [N, F], [M, D]
  at::Tensor padded_x, padded_dy;   // [B, 1, T, F], [B, T', D]
  std::vector<at::Tensor> weights;  // in the order of the store
};

void run_ours(SubsamplingData& data) {
  nn::Tape tape;
  const nn::Context context{.step = {}, .packing = data.packings.back()};
  keep(data.subsampling.forward(data.x, data.packings, context, tape));
  data.subsampling.backward(data.dy, data.packings, context, tape);
}

// Without the masks that padding needs between the convolutions, and with oneDNN, which our
// products turn off for ATen.
void run_theirs(SubsamplingData& data) {
  at::globalContext().setUserEnabledMkldnn(true);
  const ImageSubsamplingOptions& options = data.options;
  size_t next = 0;
  const auto take = [&] { return data.weights[next++]; };
  at::Tensor image = data.padded_x;
  for (int64_t factor = 2; factor <= options.factor; factor *= 2) {
    const at::Tensor weight = take(), bias = take();
    if (options.kind == ImageSubsamplingKind::kSeparable && factor > 2) {
      image = at::conv2d(image, weight.view({-1, 1, 3, 3}), bias, 2, 1, 1, options.channels);
      const at::Tensor pointwise = take(), bias_of_channels = take();
      image = at::conv2d(image, pointwise.view({options.channels, -1, 1, 1}), bias_of_channels);
    } else {
      image = at::conv2d(image, weight.view({options.channels, -1, 3, 3}), bias, 2, 1);
    }
    image = at::relu(image);
  }
  const at::Tensor rows = image.transpose(1, 2).reshape({image.size(0), image.size(2), -1});
  const at::Tensor weight = take(), bias = take();
  at::linear(rows, weight, bias).backward(data.padded_dy);
  for (const at::Tensor& leaf : data.weights) leaf.mutable_grad().reset();
  at::globalContext().setUserEnabledMkldnn(false);
}

Sides image_subsampling(const ImageSubsamplingOptions& options,
                        const std::vector<int64_t>& lengths) {
  const auto data = std::make_shared<SubsamplingData>(options, lengths);
  return {.ours = [data] { run_ours(*data); }, .theirs = [data] { run_theirs(*data); }};
}

}  // namespace

std::vector<Pair> image_subsampling_pairs() {
  struct Pack {
    const char* name;
    std::vector<int64_t> lengths;
  };
  struct Network {
    const char* name;
    ImageSubsamplingOptions options;
  };
  std::vector<Pair> pairs;
  for (const Network& network :
       {Network{"separable_by_8", {.factor = 8, .channels = 256, .width = 1024}},
        Network{
            "plain_by_4",
            {.kind = ImageSubsamplingKind::kPlain, .factor = 4, .channels = 256, .width = 256}}}) {
    for (const Pack& pack : {Pack{"1x1500", {1500}}, Pack{"4x200..1000", {1000, 200, 640, 410}}}) {
      pairs.push_back(
          {.topic = "image_subsampling",
           .shape = fmt::format("fp32_{}_{}", network.name, pack.name),
           .compares_memory = true,
           .make = [=] { return in_one_arena(image_subsampling(network.options, pack.lengths)); }});
    }
  }
  return pairs;
}

}  // namespace sotto::bench
