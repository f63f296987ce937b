// The dense products of a layer on N frames: forward y = x W^T + b, dx = dy W, dW += dy^T x. Theirs
// is ATen's own call into a result that is there already; ours allocates its result, checks, and
// reserves what ATen may take inside.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "bench_data.h"
#include "sotto/device/torch_memory.h"
#include "sotto/kernels/product/gemm.h"
#include "topics.h"

namespace sotto::bench {

namespace {

using device::Arena;
using device::ArenaGuard;
using kernels::Gemm;

struct Layer {
  std::string name;
  int64_t inputs;
  int64_t outputs;
  int64_t frames;
  at::ScalarType type;
};

// What the products of a layer read and write, shared by both sides.
struct LayerData {
  explicit LayerData(const Layer& layer)
      : x(random_values({layer.frames, layer.inputs}, layer.type)),
        dy(random_values({layer.frames, layer.outputs}, layer.type)),
        weight(random_values({layer.outputs, layer.inputs}, layer.type)),
        bias(random_values({layer.outputs}, at::kFloat)) {}

  at::Tensor x;       // [N, D]
  at::Tensor dy;      // [N, H]
  at::Tensor weight;  // [H, D]
  at::Tensor bias;    // [H] fp32
};

using Memory = std::shared_ptr<Arena>;  // none: LibTorch's own allocator

Memory new_arena() {
  return std::make_shared<Arena>(device::RegionKind::kHost, int64_t{512} << 20);
}

Sides forward(const Layer& layer, const Memory& arena) {
  const auto data = std::make_shared<LayerData>(layer);
  at::Tensor result = at::empty_like(data->dy);
  const at::Tensor bias = data->bias.to(layer.type);
  return {.ours = with_arena(
              arena,
              [data] {
                keep(Gemm::multiply(
                    {.a = data->x, .b = data->weight, .transpose_b = true, .bias = &data->bias}));
              }),
          .theirs = [data, bias, result]() mutable {
            at::addmm_out(result, bias, data->x, data->weight.t());
          }};
}

Sides input_gradient(const Layer& layer, const Memory& arena) {
  const auto data = std::make_shared<LayerData>(layer);
  at::Tensor result = at::empty_like(data->x);
  return {.ours = with_arena(arena,
                             [data] { keep(Gemm::multiply({.a = data->dy, .b = data->weight})); }),
          .theirs = [data, result]() mutable { at::mm_out(result, data->dy, data->weight); }};
}

// In the operands' type.
Sides weight_gradient(const Layer& layer, const Memory& arena) {
  const auto data = std::make_shared<LayerData>(layer);
  at::Tensor sum = at::zeros_like(data->weight);
  return {.ours = with_arena(arena,
                             [data, sum]() mutable {
                               Gemm::accumulate(sum,
                                                {.a = data->dy, .b = data->x, .transpose_a = true});
                             }),
          .theirs = [data, sum]() mutable { at::addmm_out(sum, sum, data->dy.t(), data->x); }};
}

// In fp32 from 16-bit operands. ATen has no such product on the CPU: theirs rounds the product to
// 16 bits and then adds it, which is what ours is there to avoid.
Sides mixed_weight_gradient(const Layer& layer, const Memory& arena) {
  const auto data = std::make_shared<LayerData>(layer);
  at::Tensor sum = at::zeros_like(data->weight, at::kFloat);
  at::Tensor product = at::empty_like(data->weight);
  return {.ours = with_arena(arena,
                             [data, sum]() mutable {
                               Gemm::accumulate(sum,
                                                {.a = data->dy, .b = data->x, .transpose_a = true});
                             }),
          .theirs = [data, sum, product]() mutable {
            at::mm_out(product, data->dy.t(), data->x);
            sum.add_(product);
          }};
}

// ATen's product on both sides: how far such a ratio is from 1 is what chance does to the others.
Sides same_twice(const Layer& layer) {
  const Sides sides = input_gradient(layer, nullptr);
  return {.ours = sides.theirs, .theirs = sides.theirs};
}

struct Form {
  const char* name;
  Sides (*make)(const Layer& layer, const Memory& arena);
};

std::vector<Layer> layers(at::ScalarType type) {
  std::vector<Layer> all;
  for (const int64_t width : {256, 512, 1024}) {
    for (const int64_t frames : {200, 1500}) {
      all.push_back({"ffn", width, 4 * width, frames, type});
      all.push_back({"projection", width, width, frames, type});
    }
  }
  return all;
}

std::string shape_of(const Layer& layer, const Form& form) {
  return fmt::format("{}_{}_{}_{}_{}", short_name(layer.type), layer.name, layer.inputs,
                     layer.frames, form.name);
}

}  // namespace

std::vector<Pair> gemm_pairs() {
  constexpr double kWithinThreePercent = 0.97;
  const Form forward_form{"forward", forward};
  const Form mixed_form{"dW_into_fp32", mixed_weight_gradient};
  std::vector<Pair> pairs;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const Layer& layer : layers(type)) {
      for (const Form& form : {forward_form, {"dx", input_gradient}, {"dW", weight_gradient}}) {
        pairs.push_back({.topic = "gemm",
                         .shape = shape_of(layer, form),
                         .at_least = kWithinThreePercent,
                         .make = [=] { return form.make(layer, new_arena()); }});
      }
    }
  }
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const Layer& layer : layers(type)) {
      if (layer.name != "ffn") continue;
      pairs.push_back({.topic = "gemm_without_arena",
                       .shape = shape_of(layer, forward_form),
                       .at_least = kWithinThreePercent,
                       .make = [=] { return forward(layer, nullptr); }});
    }
  }
  for (const Layer& layer : layers(at::kBFloat16)) {
    if (layer.name != "ffn") continue;
    pairs.push_back({.topic = "gemm_mixed", .shape = shape_of(layer, mixed_form), .make = [=] {
                       return mixed_weight_gradient(layer, new_arena());
                     }});
  }
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const Layer& layer : layers(type)) {
      if (layer.name != "ffn" || layer.inputs != 512) continue;
      pairs.push_back({.topic = "gemm_chance",
                       .shape = shape_of(layer, {"dx_twice", input_gradient}),
                       .make = [=] { return same_twice(layer); }});
    }
  }
  return pairs;
}

}  // namespace sotto::bench
