// Random problems of CTC.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "sotto/core/rng.h"

namespace sotto::test {

// A sequence of random draws.
class Dice {
 public:
  explicit Dice(uint64_t seed) : stream_({.seed = seed}) {}

  int64_t between(int64_t low, int64_t high) {
    return low +
           static_cast<int64_t>(stream_.bits(next_++) % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(double probability) { return stream_.bernoulli(next_++, probability); }
  float uniform() { return stream_.uniform(next_++); }
  float normal() { return stream_.normal(next_++); }

 private:
  RandomStream stream_;
  uint64_t next_ = 0;
};

using LabelList = std::vector<int32_t>;

struct Pack {
  std::vector<int64_t> lengths;
  std::vector<LabelList> labels;
  std::vector<float> weights;
  int64_t blank = 0;
  at::Tensor logits;  // [N, V]

  void add(int64_t num_frames, LabelList utterance, float weight = 1.0f) {
    lengths.push_back(num_frames);
    labels.push_back(std::move(utterance));
    weights.push_back(weight);
  }

  void draw_logits(Dice& dice, int64_t vocabulary, float scale) {
    int64_t num_frames = 0;
    for (const int64_t length : lengths) num_frames += length;
    logits = at::empty({num_frames, vocabulary});
    for (int64_t i = 0; i < logits.numel(); ++i)
      logits.data_ptr<float>()[i] = scale * dice.normal();
  }
};

inline LabelList draw_labels(Dice& dice, int64_t count, int64_t vocabulary, int64_t blank) {
  LabelList labels;
  while (static_cast<int64_t>(labels.size()) < count) {
    if (!labels.empty() && dice.chance(0.3)) {
      labels.push_back(labels.back());
      continue;
    }
    const auto label = static_cast<int32_t>(dice.between(0, vocabulary - 1));
    if (label != blank) labels.push_back(label);
  }
  return labels;
}

// Rows of a gradient over their utterance's weight: no entry is larger than 1.
inline at::Tensor over_weights(const at::Tensor& gradient, const Pack& pack) {
  std::vector<at::Tensor> parts = gradient.to(at::kDouble).split_with_sizes(pack.lengths);
  for (size_t u = 0; u < parts.size(); ++u) parts[u] = parts[u] / pack.weights[u];
  return at::cat(parts);
}

inline at::Tensor rows_of(const at::Tensor& rows, const Pack& pack, size_t utterance) {
  return rows.split_with_sizes(pack.lengths)[utterance];
}

}  // namespace sotto::test
