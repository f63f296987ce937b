// Ranges of AdamW in all of its forms, with values to begin with.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sotto/kernels/optimizer/adamw.h"
#include "sotto/kernels/optimizer/moment_map.h"
#include "sotto/kernels/optimizer/square_sum.h"
#include "sotto/kernels/simd/split_float.h"

namespace sotto::test {

struct AdamWForm {
  at::ScalarType weights = at::kFloat;
  int remainder_bits = 0;  // of bf16
  at::ScalarType gradients = at::kFloat;
  bool has_codes = false;

  std::string name() const {
    return (weights == at::kFloat ? "fp32" : "bf16_" + std::to_string(remainder_bits)) +
           (gradients == at::kFloat ? "_g32" : "_g16") + (has_codes ? "_m8" : "_m32");
  }
};

inline std::vector<AdamWForm> all_adamw_forms() {
  std::vector<AdamWForm> forms;
  for (const bool has_codes : {false, true}) {
    for (const at::ScalarType gradients : {at::kFloat, at::kBFloat16}) {
      forms.push_back({.gradients = gradients, .has_codes = has_codes});
      for (const int bits : {16, 8, 0}) {
        forms.push_back({.weights = at::kBFloat16,
                         .remainder_bits = bits,
                         .gradients = gradients,
                         .has_codes = has_codes});
      }
    }
  }
  return forms;
}

struct AdamWRange {
  // Zeroed state; weights and gradients as they are set.
  AdamWRange(const AdamWForm& of_form, int64_t size, const at::Device& device = at::kCPU)
      : form(of_form) {
    const auto zeros = [&](int64_t count, at::ScalarType type) {
      return at::zeros({count}, at::TensorOptions().device(device).dtype(type));
    };
    const at::ScalarType moment = form.has_codes ? at::kByte : at::kFloat;
    const int64_t blocks = kernels::num_moment_blocks(size);
    weights = zeros(size, form.weights);
    if (form.remainder_bits > 0)
      remainder = zeros(size, form.remainder_bits == 8 ? at::kByte : at::kShort);
    gradients = zeros(size, form.gradients);
    first = zeros(size, moment);
    second = zeros(size, moment);
    if (form.has_codes) {
      first_scales = zeros(blocks, at::kFloat);
      second_scales = zeros(blocks, at::kFloat);
    }
  }

  // All that a step may change, and the gradients.
  std::vector<at::Tensor*> tensors() {
    std::vector<at::Tensor*> all = {&weights, &gradients, &first, &second};
    for (at::Tensor* tensor : {&remainder, &first_scales, &second_scales}) {
      if (tensor->defined()) all.push_back(tensor);
    }
    return all;
  }

  AdamWRange clone() const { return to(weights.device(), /*copies=*/true); }
  AdamWRange to(const at::Device& device, bool copies = false) const {
    AdamWRange other = *this;
    for (at::Tensor* tensor : other.tensors())
      *tensor = tensor->to(device, tensor->scalar_type(), /*non_blocking=*/false, copies);
    return other;
  }

  // Values from `first_value` on, sharing memory; a multiple of the block.
  AdamWRange piece(int64_t begin, int64_t count) const {
    AdamWRange part = *this;
    part.first_value = first_value + begin;
    for (at::Tensor* tensor : part.tensors()) {
      const bool is_scale = tensor == &part.first_scales || tensor == &part.second_scales;
      *tensor = is_scale ? tensor->narrow(0, begin / kernels::kMomentBlock,
                                          kernels::num_moment_blocks(count))
                         : tensor->narrow(0, begin, count);
    }
    return part;
  }

  at::Tensor square_sum() const {
    at::Tensor sum = at::zeros({1}, gradients.options().dtype(at::kDouble));
    kernels::SquareSum::accumulate(sum, gradients);
    return sum;
  }

  void update(const kernels::AdamW::Coefficients& coefficients, const at::Tensor& sum) {
    kernels::AdamW::update({.weights = weights,
                            .remainder = remainder.defined() ? &remainder : nullptr,
                            .gradients = gradients,
                            .first_moment = first,
                            .second_moment = second,
                            .first_scales = form.has_codes ? &first_scales : nullptr,
                            .second_scales = form.has_codes ? &second_scales : nullptr,
                            .first_value = first_value},
                           coefficients, sum);
  }

  // The weights as the fp32 numbers that they are with their remainder; on the CPU.
  at::Tensor whole_weights() const {
    const at::Tensor high = weights.cpu();
    const at::Tensor whole = high.to(at::kFloat);
    if (!remainder.defined()) return whole;
    const at::Tensor low = remainder.cpu();
    for (int64_t i = 0; i < whole.numel(); ++i) {
      const uint16_t bits = high.data_ptr<at::BFloat16>()[i].x;
      whole.data_ptr<float>()[i] =
          form.remainder_bits == 8
              ? kernels::join_short({.high = bits, .low = low.data_ptr<uint8_t>()[i]})
              : kernels::join_float({.high = bits, .low = low.data_ptr<int16_t>()[i]});
    }
    return whole;
  }

  AdamWForm form;
  at::Tensor weights, remainder, gradients, first, second, first_scales, second_scales;
  int64_t first_value = 0;
};

// Whether all that a step changes has the same bits in both.
inline bool is_same(AdamWRange a, AdamWRange b) {
  const std::vector<at::Tensor*> of_a = a.tensors(), of_b = b.tensors();
  for (size_t i = 0; i < of_a.size(); ++i) {
    if (!at::equal(of_a[i]->cpu(), of_b[i]->cpu())) return false;
  }
  return of_a.size() == of_b.size();
}

}  // namespace sotto::test
