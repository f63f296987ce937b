#include "sotto/train/checkpoint/checkpoint_weights.h"

#include "sotto/core/error.h"
#include "sotto/models/files/tensor_values.h"
#include "sotto/train/checkpoint/checkpoint.h"

namespace sotto::train {

CheckpointWeights::CheckpointWeights(const std::filesystem::path& folder)
    : folder_(folder),
      weights_(SafetensorsFile::open(weights_path(folder))),
      optimizer_(SafetensorsFile::open(optimizer_path(folder))) {}

std::optional<TensorView> CheckpointWeights::remainder_of(const models::NamedTensor& named,
                                                          const nn::ParameterStore& store) const {
  const TensorView* weight = weights_.find(named.name);
  if (weight == nullptr || weight->type != TensorType::kBFloat16) return std::nullopt;
  const models::WeightLocation location = models::location_of(named, store);
  const TensorView* whole = optimizer_.find(remainder_name(location.parameter->spec.name));
  if (whole == nullptr || whole->shape != location.parameter->spec.shape) return std::nullopt;
  const auto value_bytes = static_cast<size_t>(size_of(whole->type));
  return TensorView{
      .type = whole->type,
      .shape = named.tensor.sizes().vec(),
      .bytes = whole->bytes.subspan(static_cast<size_t>(location.first_value) * value_bytes,
                                    static_cast<size_t>(named.tensor.numel()) * value_bytes)};
}

std::vector<float> CheckpointWeights::values_of(const models::NamedTensor& named,
                                                const nn::ParameterStore& store) const {
  const TensorView* weight = weights_.find(named.name);
  SOTTO_ASSERT(weight != nullptr, "no '{}' in {}", named.name, folder_.string());
  if (const std::optional<TensorView> remainder = remainder_of(named, store))
    return models::join_values(named, *weight, *remainder);
  return models::read_values(named, *weight);
}

}  // namespace sotto::train
