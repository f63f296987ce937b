// What a network is, from its settings alone: sizes and bytes, without a weight allocated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sotto/models/model_options.h"

namespace sotto::models {

struct ModelProfile {
  std::string family;
  std::string preset;
  int64_t layers = 0;
  int64_t width = 0;
  int64_t vocabulary = 0;
  int64_t parameters = 0;
  int64_t trainable = 0;

  // Bytes of something that a run may hold, of one kind.
  struct Bytes {
    std::string what;
    std::string kind;
    int64_t bytes = 0;
  };
  // Weights, gradients and each kind of optimizer state.
  std::vector<Bytes> bytes;
};

// Entries of a vocabulary where none is given.
inline constexpr int64_t kUsualCtcVocabulary = 32;
inline constexpr int64_t kUsualTextVocabulary = 10'000;

ModelProfile profile_model(const ModelOptions& options, const DataShape& shape);

}  // namespace sotto::models
