// Describes a network from its settings alone: sizes and bytes, without allocating weights.
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

  // Bytes of one component that a run may hold, in one type.
  struct Bytes {
    std::string what;
    std::string kind;
    int64_t bytes = 0;
  };
  // Weights, gradients and each kind of optimizer state.
  std::vector<Bytes> bytes;
};

ModelProfile profile_model(const ModelOptions& options, const DataShape& shape);

}  // namespace sotto::models
