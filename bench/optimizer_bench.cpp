// The update of the optimizer in all of its forms, beside torch.optim.AdamW(fused=True) over fp32,
// which is the ATen operation here. One large range each: far larger than caches. The bar is for
// what keeps fp32: all other forms take less memory, not less time.
#include <ATen/ATen.h>
#include <ATen/ops/_fused_adamw.h>
#include <fmt/format.h>

#include <memory>

#include "bench_data.h"
#include "sotto/kernels/optimizer/adamw.h"
#include "sotto/kernels/optimizer/moment_map.h"
#include "topics.h"

namespace sotto::bench {

namespace {

using kernels::AdamW;

constexpr int64_t kSize = 16'000'000;

struct Form {
  const char* name;
  at::ScalarType weights;
  int remainder_bits;
  at::ScalarType gradients;
  bool has_coded_moments;

  // At random, which costs random bits.
  bool is_rounded() const { return weights != at::kFloat && remainder_bits < 16; }
};

// What one update changes.
struct Range {
  explicit Range(const Form& form)
      : weights(random_values({kSize}, form.weights)),
        gradients((random_values({kSize}, at::kFloat) * 1e-2).to(form.gradients)),
        square_sum(at::ones({1}, at::kDouble)) {
    const at::ScalarType moment = form.has_coded_moments ? at::kByte : at::kFloat;
    first = at::zeros({kSize}, moment);
    second = at::zeros({kSize}, moment);
    first_scales = at::zeros({kernels::num_moment_blocks(kSize)});
    second_scales = at::zeros({kernels::num_moment_blocks(kSize)});
    if (form.remainder_bits > 0)
      remainder = at::zeros({kSize}, form.remainder_bits == 8 ? at::kByte : at::kShort);
  }

  void update(bool has_coded_moments) {
    AdamW::update({.weights = weights,
                   .remainder = remainder.defined() ? &remainder : nullptr,
                   .gradients = gradients,
                   .first_moment = first,
                   .second_moment = second,
                   .first_scales = has_coded_moments ? &first_scales : nullptr,
                   .second_scales = has_coded_moments ? &second_scales : nullptr},
                  {.rate = 1e-4}, square_sum);
  }

  at::Tensor weights, remainder, gradients, first, second, first_scales, second_scales, square_sum;
};

Sides update(const Form& form) {
  const auto range = std::make_shared<Range>(form);
  // Lists of one tensor: a model's many small ones would only cost them more.
  const std::vector<at::Tensor> weights = {random_values({kSize}, at::kFloat)};
  const std::vector<at::Tensor> gradients = {random_values({kSize}, at::kFloat) * 1e-2};
  const std::vector<at::Tensor> first = {at::zeros({kSize})}, second = {at::zeros({kSize})};
  const std::vector<at::Tensor> steps = {at::ones({})};
  return {.ours = [=] { range->update(form.has_coded_moments); },
          .theirs =
              [=] {
                at::_fused_adamw_(weights, gradients, first, second, {}, steps, 1e-4, 0.9, 0.999,
                                  0.01, 1e-8, /*amsgrad=*/false, /*maximize=*/false);
              }};
}

}  // namespace

std::vector<Pair> optimizer_pairs() {
  std::vector<Pair> pairs;
  for (const Form& form : {Form{"fp32", at::kFloat, 0, at::kFloat, false},
                           {"fp32_m8", at::kFloat, 0, at::kFloat, true},
                           {"bf16_r16", at::kBFloat16, 16, at::kFloat, false},
                           {"bf16_r16_m8", at::kBFloat16, 16, at::kFloat, true},
                           {"bf16_r8_m8", at::kBFloat16, 8, at::kFloat, true},
                           {"bf16_r8_g16_m8", at::kBFloat16, 8, at::kBFloat16, true},
                           {"bf16_r0", at::kBFloat16, 0, at::kFloat, false},
                           {"bf16_r0_g16_m8", at::kBFloat16, 0, at::kBFloat16, true}}) {
    pairs.push_back({.topic = "adamw",
                     .shape = fmt::format("{}_16000000", form.name),
                     .at_least = form.has_coded_moments || form.is_rounded() ? 0.0 : 1.0,
                     .make = [=] { return update(form); }});
  }
  return pairs;
}

}  // namespace sotto::bench
