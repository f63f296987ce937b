// The weights of a checkpoint as fp32 values, whatever their stored type: bf16 weights are combined
// with the remainders from the optimizer's file. Only the requested tensors are read.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "sotto/core/formats/safetensors.h"
#include "sotto/models/files/tensor_file.h"
#include "sotto/nn/parameters.h"

namespace sotto::train {

class CheckpointWeights {
 public:
  // Throws DataError where the files cannot be read.
  explicit CheckpointWeights(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  const SafetensorsFile& weights() const { return weights_; }
  const SafetensorsFile& optimizer() const { return optimizer_; }

  // Returns the remainder of a bf16 weight; none where the file has none. The weight belongs to a
  // network with the parameters of `store`, and may be a part of one of them.
  std::optional<TensorView> remainder_of(const models::NamedTensor& named,
                                         const nn::ParameterStore& store) const;

  // Returns the values in memory order. The weight must exist with its expected shape.
  std::vector<float> values_of(const models::NamedTensor& named,
                               const nn::ParameterStore& store) const;

 private:
  std::filesystem::path folder_;
  SafetensorsFile weights_;
  SafetensorsFile optimizer_;
};

}  // namespace sotto::train
