// Kernels that look at an element or a row by itself: Gelu, Dropout. For information.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "bench_data.h"
#include "sotto/kernels/elementwise/activation.h"
#include "sotto/kernels/elementwise/dropout.h"
#include "topics.h"

namespace sotto::bench {

namespace {

using kernels::Dropout;
using kernels::Gelu;
using kernels::Packing;

Sides gelu(at::ScalarType type) {
  const at::Tensor x = random_values({1500, 1024}, type);
  at::Tensor dy = random_values({1500, 1024}, type);
  // Ours works in place, time and again: the derivative must be 1, or the gradients would end in
  // numbers too small for full speed.
  const at::Tensor large = at::full_like(x, 10.0);
  return {.ours =
              [=]() mutable {
                keep(Gelu::forward(x));
                Gelu::backward(dy, large);
              },
          .theirs =
              [=] {
                keep(at::gelu(x));
                keep(at::gelu_backward(dy, large));
              }};
}

Sides dropout(at::ScalarType type) {
  const auto packing = std::make_shared<Packing>(std::vector<int64_t>{900, 400, 200}, at::kCPU);
  const at::Tensor x = random_values({1500, 512}, type);
  const Dropout::Mask mask{.key = {.seed = 1, .purpose = Purpose::kDropout}, .probability = 0.1};
  return {.ours = [=] { keep(Dropout::applied(x, *packing, mask)); },
          .theirs = [=] { keep(std::get<0>(at::native_dropout(x, 0.1, /*train=*/true))); }};
}

struct Topic {
  const char* name;
  const char* shape;
  Sides (*make)(at::ScalarType type);
};

}  // namespace

std::vector<Pair> elementwise_pairs() {
  std::vector<Pair> pairs;
  for (const Topic& topic : {Topic{"gelu", "1024_1500", gelu}, {"dropout", "512_1500", dropout}}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      pairs.push_back({.topic = topic.name,
                       .shape = fmt::format("{}_{}", short_name(type), topic.shape),
                       .make = [=] { return in_one_arena(topic.make(type)); }});
    }
  }
  return pairs;
}

}  // namespace sotto::bench
