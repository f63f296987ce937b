#include "sotto/models/model_profile.h"

#include <array>
#include <string_view>

namespace sotto::models {

namespace {

// Number of parameter values by how they may be stored.
struct Counts {
  int64_t large = 0;  // matrices that may be stored in 16 bits
  int64_t small = 0;  // all others: always fp32
  int64_t all() const { return large + small; }
};

// Block-wise 8-bit moments: one byte per value, and one fp32 scale per block of this many.
constexpr int64_t kBlock = 256;

int64_t eight_bit_bytes(const Counts& counts) {
  constexpr int64_t kMoments = 2;
  const int64_t scales = (counts.large + kBlock - 1) / kBlock * 4;
  return kMoments * (counts.large + scales + counts.small * 4);
}

}  // namespace

ModelProfile profile_model(const ModelOptions& options, const DataShape& shape) {
  const nn::ParameterAllocation dry{.device = at::kMeta};
  const std::unique_ptr<Model> model = options.make(shape, dry);
  Counts all, trained;
  int64_t statistics = 0;
  int64_t width = 0;
  for (const nn::Parameter& parameter : model->parameters().parameters()) {
    const nn::ParameterSpec& spec = parameter.spec;
    const bool is_large = spec.decays() && spec.num_values() >= dry.small_below;
    (is_large ? all.large : all.small) += spec.num_values();
    if (spec.is_statistic) statistics += spec.num_values();
    if (spec.trains) (is_large ? trained.large : trained.small) += spec.num_values();
    if (spec.name == "layers.0.norm1.weight" || spec.name == "layers.0.norm.weight")
      width = spec.num_values();
  }
  return {.family = std::string(options.family().name),
          .preset = options.preset(),
          .layers = model->num_layers(),
          .width = width,
          .vocabulary = shape.vocabulary,
          .parameters = all.all() - statistics,
          .trainable = trained.all(),
          .bytes = {{"weights", "fp32", 4 * all.all()},
                    {"weights", "bf16", 2 * all.large + 4 * all.small},
                    {"remainder", "16 bits", 2 * trained.large},
                    {"remainder", "8 bits", trained.large},
                    {"gradients", "fp32", 4 * trained.all()},
                    {"gradients", "bf16", 2 * trained.large + 4 * trained.small},
                    {"moments", "fp32", 8 * trained.all()},
                    {"moments", "8 bits", eight_bit_bytes(trained)}}};
}

}  // namespace sotto::models
