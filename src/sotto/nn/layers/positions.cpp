#include "sotto/nn/layers/positions.h"

#include "sotto/core/error.h"
#include "sotto/kernels/elementwise/position_add.h"

namespace sotto::nn {

using kernels::PositionAdd;
using kernels::SinusoidAdd;

Positions::Positions(ParameterStore& store, const std::string& name, const PositionOptions& options)
    : options_(options),
      table_(options.kind == PositionKind::kLearned
                 ? &store.declare({.name = name + ".weight",
                                   .shape = {options.max_frames, options.width},
                                   .deviation = 0.02})
                 : nullptr) {}

void Positions::add(at::Tensor& x, const kernels::Packing& packing, int64_t first) const {
  if (table_ == nullptr) return SinusoidAdd::accumulate(x, packing, first);
  const int64_t num_frames = first + packing.max_length();
  if (num_frames > options_.max_frames) {
    throw DataError({.attempted = "adding learned positions",
                     .found = fmt::format("an utterance of {} frames", num_frames),
                     .expected = fmt::format("at most {}", options_.max_frames),
                     .hint = fmt::format("--set model.max_frames={} allows it; --set "
                                         "data.max_seconds=30 skips longer utterances.",
                                         num_frames)});
  }
  PositionAdd::accumulate(x, in_type_of(table_->value, x), packing, first);
}

void Positions::accumulate(const at::Tensor& dy, const kernels::Packing& packing) const {
  if (table_ == nullptr) return;
  GradientSum gradient(*table_);
  PositionAdd::backward(dy, packing, gradient.sum());
  gradient.add();
}

}  // namespace sotto::nn
