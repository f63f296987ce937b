// Learners of tiny networks that have trained for a few steps, and checkpoints of them.
#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "sotto/data/text/vocabulary.h"
#include "sotto/models/wav2vec2/wav2vec2_options.h"
#include "sotto/train/checkpoint/checkpoint.h"
#include "support/tiny_models.h"

namespace sotto::test {

// The network in other numerics, of which no matrix is small.
inline TinyModel in_numerics(TinyModel tiny, train::Numerics numerics,
                             std::optional<int> remainder_bits = std::nullopt,
                             std::optional<optim::Moments> moments = std::nullopt) {
  tiny.config.numerics = numerics;
  tiny.config.precision.remainder_bits = remainder_bits;
  tiny.config.precision.moments = moments;
  tiny.config.precision.small_below = 1;
  return tiny;
}

// The wav2vec2 of tiny_models(), all of which is trained: its files have q, k and v apart, and the
// taps of convolutions elsewhere than memory has them.
inline TinyModel trained_wav2vec2() {
  TinyModel tiny = tiny_models()[1];
  tiny.config.model.as<models::Wav2Vec2Options>().freeze_feature_encoder = false;
  return tiny;
}

inline void train_steps(train::Learner& learner, const TinyModel& tiny, int64_t first,
                        int64_t last) {
  for (int64_t step = first; step <= last; ++step) {
    train::run_step(learner, tiny.examples(4, static_cast<uint64_t>(step)),
                    {.reduction = tiny.config.reduction, .step = step, .total_steps = 100});
  }
}

// A pointer, because a learner does not move.
inline std::unique_ptr<train::Learner> make_learner(const TinyModel& tiny, int64_t num_steps = 0) {
  auto learner = std::make_unique<train::Learner>(tiny.config, tiny.shape, at::kCPU);
  train_steps(*learner, tiny, 1, num_steps);
  return learner;
}

inline data::Tokenizer tokenizer_of(const std::string& letters) {
  data::CharacterSet characters;
  characters.add(letters);
  return {data::Vocabulary::from_characters(characters), {}};
}

inline std::filesystem::path write_checkpoint(const std::filesystem::path& folder,
                                              const TinyModel& tiny, const train::Learner& learner,
                                              const std::string& letters = "abcd") {
  train::RunState state;
  state.step = 3;
  state.shape = tiny.shape;
  train::write_checkpoint(
      folder, learner, {.state = state, .config = tiny.config, .tokenizer = tokenizer_of(letters)});
  return folder;
}

}  // namespace sotto::test
