#include "sotto/train/checkpoint/state_conversion.h"

#include <ATen/ATen.h>

#include <cstring>
#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/kernels/optimizer/moment_map.h"
#include "sotto/models/files/tensor_values.h"
#include "sotto/train/checkpoint/checkpoint.h"
#include "sotto/train/checkpoint/checkpoint_weights.h"

namespace sotto::train {

namespace {

using kernels::kMomentBlock;
using models::NamedTensor;

// Storage form of a weight.
enum class Form { kFp32, kWith16, kWith8, kBf16Alone };

// Number of fp32 bits that a form retains; bf16 with 16 more bits retains all of them.
int bits_of(Form form) {
  switch (form) {
    case Form::kFp32:
    case Form::kWith16: return 32;
    case Form::kWith8: return 24;
    case Form::kBf16Alone: return 16;
  }
  return 0;
}

std::string name_of_form(Form form) {
  switch (form) {
    case Form::kFp32: return "fp32";
    case Form::kWith16: return "bf16 with 16 bits of remainder";
    case Form::kWith8: return "bf16 with 8 bits of remainder";
    case Form::kBf16Alone: return "bf16 without a remainder";
  }
  return {};
}

Form form_here(const NamedTensor& named) {
  if (named.tensor.scalar_type() != at::kBFloat16) return Form::kFp32;
  if (!named.remainder.defined()) return Form::kBf16Alone;
  return named.remainder.scalar_type() == at::kByte ? Form::kWith8 : Form::kWith16;
}

Form stored_form(const TensorView& weight, const std::optional<TensorView>& remainder) {
  if (weight.type != TensorType::kBFloat16) return Form::kFp32;
  if (!remainder) return Form::kBf16Alone;
  return remainder->type == TensorType::kUint8 ? Form::kWith8 : Form::kWith16;
}

// Decodes 8-bit codes to the values they represent.
std::vector<float> decoded(const TensorView& codes, const TensorView& scales,
                           const kernels::MomentMap& map) {
  std::vector<float> values(codes.bytes.size());
  for (size_t i = 0; i < values.size(); ++i) {
    float scale = 0.0f;
    std::memcpy(&scale, scales.bytes.data() + i / kMomentBlock * sizeof(float), sizeof(float));
    values[i] = map.values[std::to_integer<size_t>(codes.bytes[i])] * scale;
  }
  return values;
}

constexpr const char* kOfRemainder = ".remainder";

// Validates everything first, then applies the recorded changes.
class Loading {
 public:
  Loading(const std::filesystem::path& folder, Learner& learner)
      : source_(folder), learner_(learner) {}

  bool run() {
    for (const std::string& name : source_.optimizer().names()) rest_.insert(name);
    plan_weights();
    plan_moments();
    for (const std::string& name : rest_) differences_.push_back(name + " is only in it");
    if (!differences_.empty()) models::refuse_differences(source_.folder().string(), differences_);
    if (!lost_.empty()) refuse_loss();
    for (const std::function<void()>& put : puts_) put();
    return is_converted_;
  }

 private:
  void plan_weights() {
    const nn::ParameterStore& store = learner_.model->parameters();
    std::set<std::string> names;
    for (const std::string& name : source_.weights().names()) names.insert(name);
    for (const NamedTensor& named : models::with_remainders(learner_.model->named_weights(), store,
                                                            learner_.optimizer.remainders())) {
      names.erase(named.name);
      names.erase(named.counter);
      rest_.erase(remainder_name(location_of(named).parameter->spec.name));
      const TensorView* theirs = source_.weights().find(named.name);
      if (std::string text = models::difference_of(named, theirs); !text.empty()) {
        differences_.push_back(std::move(text));
        continue;
      }
      const std::optional<TensorView> remainder = source_.remainder_of(named, store);
      if (!has_type(named.name, *theirs, {TensorType::kFloat32, TensorType::kBFloat16})) continue;
      if (remainder && !has_type(named.name + kOfRemainder, *remainder,
                                 {TensorType::kInt16, TensorType::kUint8}))
        continue;
      plan_weight(named, *theirs, remainder);
    }
    for (const std::string& name : names) differences_.push_back(name + " is only in it");
  }

  void plan_weight(const NamedTensor& named, const TensorView& theirs,
                   const std::optional<TensorView>& remainder) {
    const Form there = stored_form(theirs, remainder);
    const Form here = form_here(named);
    if (bits_of(here) < bits_of(there)) {
      const bool trains = location_of(named).parameter->spec.trains;
      lose(fmt::format("{} cannot hold those in {}",
                       trains ? "weights in " + name_of_form(here) : "frozen weights in bf16",
                       name_of_form(there)));
    } else if (here != there) {
      is_converted_ = true;
      puts_.emplace_back([this, named] {
        models::put_values(named, source_.values_of(named, learner_.model->parameters()));
      });
    } else {
      puts_.emplace_back([named, &theirs, remainder] {
        std::vector<std::byte> buffer;
        models::put_bytes(named.tensor, models::in_memory_order(named, theirs, buffer));
        if (remainder) models::put_bytes(named.remainder, remainder->bytes);
      });
    }
  }

  void plan_moments() {
    std::map<std::string, at::Tensor> ours;
    for (const NamedTensor& named : tensors_of(learner_.optimizer)) ours[named.name] = named.tensor;
    for (const auto& [which, map] : {std::pair{"first", &kernels::kSignedMoments},
                                     std::pair{"second", &kernels::kUnsignedMoments}}) {
      const std::string moment = fmt::format(".{}_moment", which);
      for (const auto& [name, tensor] : ours) {
        if (!name.ends_with(moment)) continue;
        const std::string parameter = name.substr(0, name.size() - moment.size());
        const std::string scales = fmt::format("{}.{}_scales", parameter, which);
        const auto found = ours.find(scales);
        plan_moment({name, tensor}, {scales, found == ours.end() ? at::Tensor() : found->second},
                    *map);
      }
    }
  }

  void plan_moment(const NamedTensor& moment, const NamedTensor& scales,
                   const kernels::MomentMap& map) {
    rest_.erase(moment.name);
    rest_.erase(scales.name);
    const TensorView* theirs = source_.optimizer().find(moment.name);
    if (std::string text = models::difference_of(moment, theirs); !text.empty()) {
      differences_.push_back(std::move(text));
      return;
    }
    if (!has_type(moment.name, *theirs, {TensorType::kFloat32, TensorType::kUint8})) return;
    const bool has_codes = theirs->type == TensorType::kUint8;
    const TensorView* their_scales = source_.optimizer().find(scales.name);
    if (has_codes && their_scales != nullptr &&
        !has_type(scales.name, *their_scales, {TensorType::kFloat32}))
      return;
    const int64_t num_scales = kernels::num_moment_blocks(moment.tensor.numel());
    if (has_codes && (their_scales == nullptr || their_scales->shape != std::vector{num_scales})) {
      differences_.push_back(fmt::format("{} [{}] is not in it", scales.name, num_scales));
    } else if (scales.tensor.defined() && !has_codes) {
      lose("8-bit moments cannot hold those in fp32");
    } else if (has_codes && !scales.tensor.defined()) {
      is_converted_ = true;
      puts_.emplace_back([moment, theirs, their_scales, &map] {
        const std::vector<float> values = decoded(*theirs, *their_scales, map);
        models::put_bytes(moment.tensor, std::as_bytes(std::span(values)));
      });
    } else {
      puts_.emplace_back([moment, scales, theirs, their_scales] {
        models::put_bytes(moment.tensor, theirs->bytes);
        if (scales.tensor.defined()) models::put_bytes(scales.tensor, their_scales->bytes);
      });
    }
  }

  // Records a difference where a tensor of the checkpoint has none of these types: its bytes would
  // be misinterpreted, or read beyond their end.
  bool has_type(const std::string& name, const TensorView& view,
                std::initializer_list<TensorType> types) {
    if (std::ranges::find(types, view.type) != types.end()) return true;
    differences_.push_back(
        fmt::format("{} has values of {} bytes of another type", name, size_of(view.type)));
    return false;
  }

  models::WeightLocation location_of(const NamedTensor& named) const {
    return models::location_of(named, learner_.model->parameters());
  }

  // The same reason is recorded once for many tensors.
  void lose(const std::string& what) { lost_.insert(what); }

  [[noreturn]] void refuse_loss() const {
    throw DataError({.attempted = fmt::format("resuming from {} with other numerics",
                                              source_.folder().string()),
                     .found = fmt::format("{}: bits would be lost", fmt::join(lost_, "; ")),
                     .expected = "numerics that hold all of its state",
                     .hint = fmt::format(
                         "Continue with the numerics of {}, or start a new run with its weights: "
                         "--init-from {}.",
                         (source_.folder() / "config.yaml").string(), source_.folder().string())});
  }

  CheckpointWeights source_;
  Learner& learner_;
  // Names in the optimizer's file that were not requested.
  std::set<std::string> rest_;
  std::vector<std::string> differences_;
  std::set<std::string> lost_;
  std::vector<std::function<void()>> puts_;
  bool is_converted_ = false;
};

}  // namespace

bool load_learner(const std::filesystem::path& folder, Learner& learner) {
  return Loading(folder, learner).run();
}

}  // namespace sotto::train
