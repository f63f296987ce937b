#include "sotto/train/checkpoint/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>

#include "sotto/core/config/config.h"
#include "sotto/core/config/config_yaml.h"
#include "sotto/core/error.h"
#include "sotto/core/files/atomic_folder.h"
#include "sotto/core/files/file_list.h"
#include "sotto/core/files/output_file.h"
#include "sotto/core/files/text_file.h"
#include "sotto/models/hub/hugging_face.h"

namespace sotto::train {

namespace {

namespace fs = std::filesystem;
using models::NamedTensor;

constexpr const char* kWeights = "model.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kConfig = "config.yaml";
constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kAside = ".aside";
constexpr const char* kRemainder = ".remainder";

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// A parsed folder name: "step-12", "step-12.aside", "step-12.aside-2".
struct StepName {
  int64_t step = 0;
  bool is_aside = false;
};

// Returns none where it is not the name of a checkpoint.
std::optional<StepName> parse_name(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  StepName parsed;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, parsed.step);
  if (error != std::errc()) return std::nullopt;
  parsed.is_aside = std::string_view(rest, end).starts_with(kAside);
  return rest == end || parsed.is_aside ? std::optional(parsed) : std::nullopt;
}

// Lists the checkpoints of a run, oldest first.
std::vector<fs::path> list_folders(const fs::path& run_folder, bool is_aside) {
  const fs::path folder = run_folder / kCheckpointsFolder;
  std::vector<std::pair<int64_t, fs::path>> found;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::optional<StepName> name = parse_name(entry->path());
    if (name && name->is_aside == is_aside) found.emplace_back(name->step, entry->path());
  }
  // A new run has none. A run whose checkpoints cannot be listed must not start from scratch.
  if (error && error != std::errc::no_such_file_or_directory)
    throw DataError({.attempted = fmt::format("listing the checkpoints in {}", folder.string()),
                     .found = error.message(),
                     .expected = "a folder that can be read",
                     .hint = error == std::errc::not_a_directory
                                 ? "Move the file with that name, or name another folder with "
                                   "--out."
                                 : ""});
  std::sort(found.begin(), found.end());
  std::vector<fs::path> paths;
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

bool is_same_folder(const fs::path& path, const std::optional<fs::path>& other) {
  std::error_code ignored;
  return other && fs::equivalent(path, *other, ignored);
}

// Returns where a checkpoint is moved to: it may replace one moved there before, but not one in
// use, nor an intact one if this one is damaged.
fs::path aside_path(const fs::path& path, const std::optional<fs::path>& used) {
  std::string name = path.string() + std::string(kAside);
  std::error_code ignored;
  const bool is_taken =
      fs::exists(name, ignored) &&
      (is_same_folder(name, used) || (is_whole_checkpoint(name) && !is_whole_checkpoint(path)));
  if (!is_taken) return name;
  for (int number = 2;; ++number) {
    std::string numbered = fmt::format("{}-{}", name, number);
    if (!fs::exists(numbered, ignored)) return numbered;
  }
}

nlohmann::json state_json(const RunState& state) {
  nlohmann::json json = {{"format_version", kCheckpointFormatVersion},
                         {"step", state.step},
                         {"epoch", state.next.epoch},
                         {"epoch_step", state.next.step},
                         {"limits", to_json(state.limits)},
                         {"device", state.device_name},
                         {"best_step", state.best_step},
                         {"loss_scale", state.loss_scale},
                         {"steps_since_scale_change", state.steps_since_scale_change},
                         {"schedule_steps", state.schedule_steps},
                         {"data_fingerprint", state.data_fingerprint},
                         {"order_fingerprint", state.order_fingerprint},
                         {"file_hashes", state.file_hashes},
                         {"dev_fingerprint", state.dev_fingerprint},
                         {"vocabulary", state.shape.vocabulary},
                         {"blank", state.shape.blank},
                         {"feature_dim", state.shape.feature_dim}};
  json["skipped_steps"] = {{"of_all", state.skipped.of_all},
                           {"of_layers", state.skipped.of_layers}};
  if (state.stage > 0) {
    json["stage"] = state.stage;
    json["stage_begin"] = state.stage_begin;
  }
  if (state.metric) json["metric"] = *state.metric;
  if (state.best_step > 0) json["best_metric"] = state.best_metric;
  json["plateau"] = {{"num_worse", state.plateau.num_worse}, {"factor", state.plateau.factor}};
  if (std::isfinite(state.plateau.best)) json["plateau"]["best"] = state.plateau.best;
  if (state.longest_fitting_s > 0.0) json["longest_fitting_s"] = state.longest_fitting_s;
  if (state.owes_evaluation) json["owes_evaluation"] = true;
  json["early_stopping"] = {{"num_worse", state.early_stopping.num_worse}};
  if (std::isfinite(state.early_stopping.best))
    json["early_stopping"]["best"] = state.early_stopping.best;
  return json;
}

// Throws for values that no run writes: the file was edited.
void check_numbers(const RunState& state, const fs::path& path) {
  constexpr int64_t kMost = int64_t{1} << 40;
  constexpr int64_t kMostEntries = int64_t{1} << 31;
  struct Number {
    const char* key;
    int64_t value;
    int64_t most;
  };
  for (const Number& number :
       {Number{"step", state.step, kMost}, Number{"epoch", state.next.epoch, kMost},
        Number{"epoch_step", state.next.step, kMost}, Number{"stage", state.stage, kMost},
        Number{"stage_begin", state.stage_begin, state.step},
        Number{"best_step", state.best_step, kMost},
        Number{"schedule_steps", state.schedule_steps, std::numeric_limits<int64_t>::max()},
        Number{"vocabulary", state.shape.vocabulary, kMostEntries},
        Number{"feature_dim", state.shape.feature_dim, kMostEntries}}) {
    if (number.value >= 0 && number.value <= number.most) continue;
    throw DataError({.attempted = fmt::format("reading {}", path.string()),
                     .found = fmt::format("{} is {}", number.key, number.value),
                     .expected = fmt::format("0 to {}", number.most),
                     .hint = "Use another checkpoint of the run."});
  }
}

RunState state_from(const nlohmann::json& json, const fs::path& path) {
  try {
    if (json.at("format_version").get<int64_t>() > kCheckpointFormatVersion) {
      throw DataError({.attempted = fmt::format("reading {}", path.string()),
                       .found = "a checkpoint of a newer format",
                       .expected = fmt::format("format_version {}", kCheckpointFormatVersion),
                       .hint = "Use the version of sotto that wrote it."});
    }
    RunState state;
    state.step = json.at("step");
    state.next = {.epoch = json.at("epoch"), .step = json.at("epoch_step")};
    state.stage = json.value("stage", int64_t{0});
    state.stage_begin = json.value("stage_begin", int64_t{0});
    state.limits = limits_from_json(json.at("limits"));
    state.device_name = json.value("device", std::string());
    state.best_step = json.at("best_step");
    state.loss_scale = json.at("loss_scale");
    state.steps_since_scale_change = json.at("steps_since_scale_change");
    state.data_fingerprint = json.at("data_fingerprint");
    state.shape = {.vocabulary = json.at("vocabulary"),
                   .blank = json.at("blank"),
                   .feature_dim = json.at("feature_dim")};
    if (json.contains("metric")) state.metric = json.at("metric").get<double>();
    if (state.best_step > 0) state.best_metric = json.at("best_metric");
    // Checkpoints of earlier versions count all steps.
    if (json.contains("skipped_steps")) {
      json.at("skipped_steps").at("of_all").get_to(state.skipped.of_all);
      json.at("skipped_steps").at("of_layers").get_to(state.skipped.of_layers);
    }
    if (json.contains("plateau")) {
      const nlohmann::json& plateau = json.at("plateau");
      state.plateau.num_worse = plateau.at("num_worse");
      state.plateau.factor = plateau.at("factor");
      if (plateau.contains("best")) state.plateau.best = plateau.at("best");
    }
    const nlohmann::json& early = json.at("early_stopping");
    state.early_stopping.num_worse = early.at("num_worse");
    if (early.contains("best")) state.early_stopping.best = early.at("best");
    state.owes_evaluation = json.value("owes_evaluation", false);
    state.schedule_steps = json.value("schedule_steps", int64_t{0});
    state.order_fingerprint = json.value("order_fingerprint", uint64_t{0});
    state.file_hashes = json.value("file_hashes", std::vector<uint64_t>());
    state.longest_fitting_s = json.value("longest_fitting_s", 0.0);
    state.dev_fingerprint = json.value("dev_fingerprint", uint64_t{0});
    check_numbers(state, path);
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
  write_checkpoint(folder, checkpoint,
                   {.weights =
                        [&](const fs::path& path) {
                          return models::write_tensors(path, learner.model->named_weights());
                        },
                    .optimizer =
                        [&](const fs::path& path) {
                          return models::write_tensors(path, tensors_of(learner.optimizer));
                        }});
}

void write_checkpoint(const fs::path& folder, const Checkpoint& checkpoint,
                      const TensorWriters& write) {
  AtomicFolder aside(folder);
  FileList list;
  list.add(kWeights, write.weights(weights_path(aside.path())));
  list.add(kOptimizer, write.optimizer(optimizer_path(aside.path())));
  write_model_config(aside.path(), checkpoint);
  checkpoint.tokenizer.write(aside.path());
  write_file(aside.path() / kConfig, bytes_of(format_yaml(write_options(checkpoint.config))));
  write_file(aside.path() / kStateFile, bytes_of(state_json(checkpoint.state).dump(2) + "\n"));
  list.add_rest(aside.path());
  list.write(aside.path());
  aside.commit([](const fs::path& path) { check_files(path, {.is_from_disk = true}); });
}

void write_model_config(const fs::path& folder, const Checkpoint& checkpoint) {
  models::write_hugging_face_config(folder,
                                    {.model = checkpoint.config.model,
                                     .shape = checkpoint.state.shape,
                                     .source = checkpoint.model_config,
                                     .reduction = checkpoint.config.reduction,
                                     .weights = checkpoint.config.arithmetic().weight_type(),
                                     .tokenizer = &checkpoint.tokenizer});
}

RunState read_state(const fs::path& folder) {
  const fs::path path = folder / kStateFile;
  return state_from(
      nlohmann::json::parse(read_text_file(path), nullptr, /*allow_exceptions=*/false), path);
}

Checkpoint read_checkpoint(const fs::path& folder) {
  const RunState state = read_state(folder);
  auto config = read_config<RunConfig>(folder / kConfig);
  data::Tokenizer tokenizer = data::Tokenizer::read(folder, config.data.text);
  tokenizer.widen(state.shape.vocabulary);
  return {.state = state,
          .config = std::move(config),
          .tokenizer = std::move(tokenizer),
          .model_config = models::read_model_config(folder)};
}

bool is_checkpoint(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / kStateFile, ignored) || fs::exists(folder / kFileListName, ignored);
}

void check_checkpoint(const fs::path& folder, CheckpointPart part) {
  check_files(folder, {.left_out = part == CheckpointPart::kAll ? "" : kOptimizer});
}

bool is_whole_checkpoint(const fs::path& folder) {
  try {
    check_checkpoint(folder, CheckpointPart::kAll);
    return true;
  } catch (const DataError&) {
    return false;
  }
}

void load_weights(const fs::path& folder, models::Model& model) {
  if (fs::exists(weights_path(folder))) {
    models::load_tensors(weights_path(folder), model.named_weights());
  } else {
    // An export may have several weight files.
    models::import_tensors(WeightFolder::open(folder), model.named_weights(), {});
  }
}

fs::path weights_path(const fs::path& folder) {
  return folder / kWeights;
}
fs::path optimizer_path(const fs::path& folder) {
  return folder / kOptimizer;
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

std::string remainder_name(const std::string& parameter) {
  return parameter + kRemainder;
}

std::vector<fs::path> list_checkpoints(const fs::path& run_folder) {
  return list_folders(run_folder, /*is_aside=*/false);
}

std::vector<fs::path> list_set_aside(const fs::path& run_folder) {
  return list_folders(run_folder, /*is_aside=*/true);
}

std::optional<fs::path> find_checkpoint(const fs::path& path) {
  if (is_checkpoint(path)) return path;
  if (is_checkpoint(path / kBestFolder)) return path / kBestFolder;
  // A model may be a file.
  if (std::error_code ignored; fs::is_regular_file(path, ignored)) return std::nullopt;
  const std::vector<fs::path> all = list_checkpoints(path);
  if (!all.empty()) return all.back();
  const std::vector<fs::path> aside = list_set_aside(path);
  const auto newest = std::find_if(aside.rbegin(), aside.rend(), is_whole_checkpoint);
  return newest == aside.rend() ? std::nullopt : std::optional(*newest);
}

std::vector<fs::path> set_aside_beyond(const fs::path& run_folder, int64_t step,
                                       const std::optional<fs::path>& used) {
  std::vector<fs::path> moved;
  const std::vector<fs::path> all = list_checkpoints(run_folder);
  for (auto path = all.rbegin(); path != all.rend() && parse_name(*path)->step >= step; ++path) {
    if (parse_name(*path)->step == step && (!used || is_same_folder(*path, used))) continue;
    moved.push_back(set_aside(*path, used));
  }
  return moved;
}

fs::path set_aside(const fs::path& path, const std::optional<fs::path>& used) {
  fs::path aside = aside_path(path, used);
  std::error_code failed;
  fs::remove_all(aside, failed);  // left by an earlier call
  fs::rename(path, aside, failed);
  if (failed)
    throw DataError({.attempted = fmt::format("setting {} aside", path.string()),
                     .found = failed.message(),
                     .expected = "a folder that can be renamed"});
  return aside;
}

fs::path checkpoint_path(const fs::path& run_folder, int64_t step) {
  return run_folder / kCheckpointsFolder / fmt::format("{}{}", kPrefix, step);
}

}  // namespace sotto::train
