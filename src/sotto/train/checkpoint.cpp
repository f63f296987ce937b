#include "sotto/train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>

#include "sotto/core/atomic_folder.h"
#include "sotto/core/config.h"
#include "sotto/core/config_yaml.h"
#include "sotto/core/error.h"
#include "sotto/core/safetensors.h"
#include "sotto/core/text_file.h"
#include "sotto/models/hugging_face.h"
#include "sotto/models/tensor_file.h"

namespace sotto::train {

namespace {

namespace fs = std::filesystem;
using models::NamedTensor;

constexpr const char* kWeights = "model.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kConfig = "config.yaml";
constexpr const char* kState = "state.json";
constexpr std::string_view kPrefix = "step-";

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::vector<NamedTensor> tensors_of(const optim::Optimizer& optimizer) {
  std::vector<NamedTensor> tensors;
  for (const auto& [name, arrays] : optimizer.states()) {
    for (const auto& [part, tensor] : {std::pair{".first_moment", arrays.first_moment},
                                       {".second_moment", arrays.second_moment},
                                       {".first_scales", arrays.first_scales},
                                       {".second_scales", arrays.second_scales},
                                       {".remainder", arrays.remainder}}) {
      if (tensor.defined()) tensors.push_back({name + part, tensor});
    }
  }
  return tensors;
}

nlohmann::json state_json(const RunState& state) {
  nlohmann::json json = {{"format_version", kCheckpointFormatVersion},
                         {"step", state.step},
                         {"epoch", state.next.epoch},
                         {"epoch_step", state.next.step},
                         {"limits", to_json(state.limits)},
                         {"best_step", state.best_step},
                         {"loss_scale", state.loss_scale},
                         {"steps_since_scale_change", state.steps_since_scale_change},
                         {"data_fingerprint", state.data_fingerprint},
                         {"vocabulary", state.shape.vocabulary},
                         {"blank", state.shape.blank},
                         {"feature_dim", state.shape.feature_dim}};
  if (state.best_step > 0) json["best_metric"] = state.best_metric;
  if (std::isfinite(state.plateau.best))
    json["plateau"] = {{"best", state.plateau.best},
                       {"num_worse", state.plateau.num_worse},
                       {"factor", state.plateau.factor}};
  return json;
}

RunState state_from(const nlohmann::json& json, const fs::path& path) {
  try {
    if (json.at("format_version").get<int64_t>() > kCheckpointFormatVersion) {
      throw DataError({.attempted = fmt::format("reading {}", path.string()),
                       .found = "a checkpoint of a newer format",
                       .expected = fmt::format("format_version {}", kCheckpointFormatVersion),
                       .hint = "Use the version of sotto that wrote it."});
    }
    RunState state{.step = json.at("step"),
                   .next = {.epoch = json.at("epoch"), .step = json.at("epoch_step")},
                   .limits = limits_from_json(json.at("limits")),
                   .best_step = json.at("best_step"),
                   .loss_scale = json.at("loss_scale"),
                   .steps_since_scale_change = json.at("steps_since_scale_change"),
                   .data_fingerprint = json.at("data_fingerprint"),
                   .shape = {.vocabulary = json.at("vocabulary"),
                             .blank = json.at("blank"),
                             .feature_dim = json.at("feature_dim")}};
    if (state.best_step > 0) state.best_metric = json.at("best_metric");
    if (json.contains("plateau")) {
      const nlohmann::json& plateau = json.at("plateau");
      state.plateau = {.best = plateau.at("best"),
                       .num_worse = plateau.at("num_worse"),
                       .factor = plateau.at("factor")};
    }
    return state;
  } catch (const nlohmann::json::exception& error) {
    throw DataError({.attempted = fmt::format("reading {}", path.string()),
                     .found = error.what(),
                     .expected = "the state of a run, as sotto writes it",
                     .hint = "Use another checkpoint of the run."});
  }
}

}  // namespace

void write_checkpoint(const fs::path& folder, const Learner& learner,
                      const Checkpoint& checkpoint) {
  AtomicFolder aside(folder);
  models::write_tensors(aside.path() / kWeights, learner.model->named_weights());
  models::write_hugging_face_config(aside.path(), checkpoint.config.model, checkpoint.state.shape);
  models::write_tensors(aside.path() / kOptimizer, tensors_of(learner.optimizer));
  checkpoint.tokenizer.write(aside.path());
  write_file_synced(aside.path() / kConfig,
                    bytes_of(format_yaml(write_options(checkpoint.config))));
  write_file_synced(aside.path() / kState, bytes_of(state_json(checkpoint.state).dump(2) + "\n"));
  aside.commit();
}

Checkpoint read_checkpoint(const fs::path& folder) {
  const fs::path state_path = folder / kState;
  const nlohmann::json json = nlohmann::json::parse(read_text_file(state_path), nullptr,
                                                    /*allow_exceptions=*/false);
  const RunState state = state_from(json, state_path);
  auto config = read_config<RunConfig>(folder / kConfig);
  data::Tokenizer tokenizer = data::Tokenizer::read(folder, config.data.text);
  return {.state = state, .config = std::move(config), .tokenizer = std::move(tokenizer)};
}

void check_checkpoint(const fs::path& folder) {
  read_checkpoint(folder);
  SafetensorsFile::open(folder / kWeights);
  SafetensorsFile::open(folder / kOptimizer);
}

void load_weights(const fs::path& folder, models::Model& model) {
  models::load_tensors(folder / kWeights, model.named_weights());
}

void load_optimizer(const fs::path& folder, optim::Optimizer& optimizer) {
  models::load_tensors(folder / kOptimizer, tensors_of(optimizer));
}

std::vector<fs::path> list_checkpoints(const fs::path& run_folder) {
  std::vector<std::pair<int64_t, fs::path>> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(run_folder / "checkpoints", ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    int64_t step = 0;
    const char* end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
    if (error == std::errc() && rest == end) found.emplace_back(step, entry.path());
  }
  std::sort(found.begin(), found.end());
  std::vector<fs::path> paths;
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

fs::path checkpoint_path(const fs::path& run_folder, int64_t step) {
  return run_folder / "checkpoints" / fmt::format("{}{}", kPrefix, step);
}

}  // namespace sotto::train
