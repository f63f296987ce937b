// The weights of a checkpoint as fp32 numbers, whatever they are stored as: bf16 is put together
// with the remainder that the optimizer's file has beside it. Only what is asked for is read.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "sotto/core/formats/safetensors.h"
#include "sotto/models/tensor_file.h"
#include "sotto/nn/parameters.h"

namespace sotto::train {

class CheckpointWeights {
 public:
  // Throws DataError where its files cannot be read.
  explicit CheckpointWeights(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  const SafetensorsFile& weights() const { return weights_; }
  const SafetensorsFile& optimizer() const { return optimizer_; }

  // What bf16 leaves out of a weight; nothing where the file keeps nothing of it. The weight is one
  // of a network with the parameters of `store`, and may be part of one of them.
  std::optional<TensorView> remainder_of(const models::NamedTensor& named,
                                         const nn::ParameterStore& store) const;

  // In the order of memory. The weight must be there, in its shape.
  std::vector<float> values_of(const models::NamedTensor& named,
                               const nn::ParameterStore& store) const;

 private:
  std::filesystem::path folder_;
  SafetensorsFile weights_;
  SafetensorsFile optimizer_;
};

}  // namespace sotto::train
