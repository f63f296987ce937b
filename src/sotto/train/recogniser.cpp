#include "sotto/train/recogniser.h"

#include <utility>

#include "sotto/core/error.h"
#include "sotto/data/audio.h"
#include "sotto/data/micro_batch.h"
#include "sotto/train/fit.h"
#include "sotto/train/library_constant.h"
#include "sotto/train/run_files.h"

namespace sotto::train {

namespace {

namespace fs = std::filesystem;

fs::path find_checkpoint(const fs::path& path) {
  if (fs::exists(path / "state.json")) return path;
  if (fs::exists(path / kBestFolder / "state.json")) return path / kBestFolder;
  const std::vector<fs::path> all = list_checkpoints(path);
  if (!all.empty()) return all.back();
  throw DataError({.attempted = fmt::format("finding a checkpoint in {}", path.string()),
                   .found = fs::exists(path) ? "none" : "no such folder",
                   .expected = "the folder of a run, or of one of its checkpoints",
                   .hint = "`sotto train` makes one."});
}

}  // namespace

Recogniser::Recogniser(const fs::path& checkpoint, int64_t budget_bytes,
                       const device::RunDevice& device)
    : folder_(find_checkpoint(checkpoint)),
      checkpoint_(read_checkpoint(folder_)),
      device_(device),
      arena_bytes_(divide_budget(checkpoint_.config, checkpoint_.state.shape, device, budget_bytes)
                       .arena_bytes),
      staging_(device::resolve_host_budget({}, device)),
      dry_(checkpoint_.config, checkpoint_.state.shape, DryRun::Purpose::kRecognition,
           device.target),
      arena_(std::make_shared<device::Arena>(
          device.target.is_cuda() ? device::RegionKind::kCuda : device::RegionKind::kHost,
          arena_bytes_)),
      guard_(device.torch.type(), arena_),
      target_(device.target),
      model_(make_model(checkpoint_.config, checkpoint_.state.shape, device.torch,
                        /*trains=*/false)) {
  load_weights(folder_, *model_);
}

Evaluation Recogniser::evaluate(const fs::path& manifest_path,
                                const std::function<void(int64_t)>& progress) {
  data::Manifest manifest = data::Manifest::read(manifest_path);
  if (manifest.feature_dim() != checkpoint_.state.shape.feature_dim) {
    throw DataError(
        {.attempted = fmt::format("evaluating on {}", manifest_path.string()),
         .found = fmt::format("features of width {} (0: audio)", manifest.feature_dim()),
         .expected = fmt::format("{}, as in training", checkpoint_.state.shape.feature_dim)});
  }
  data::DatasetOptions options = dataset_options(checkpoint_.config, manifest);
  // What was left out of training counts when it is recognised.
  options.min_seconds = 0.0;
  options.max_seconds = 0.0;
  const data::Dataset dataset(std::move(manifest), checkpoint_.tokenizer, options);
  return train::evaluate(*model_, dataset, staging_,
                         {.limits = fit_recognition(dry_, Sizes(dataset), {.bytes = arena_bytes_}),
                          .device = device_.torch,
                          .loader_threads = checkpoint_.config.data.loader_threads,
                          .progress = progress});
}

std::vector<std::string> Recogniser::transcribe(const std::vector<fs::path>& files) {
  if (checkpoint_.state.shape.feature_dim > 0) {
    throw ConfigError({.attempted = "transcribing audio",
                       .found = "a network that was trained on stored features",
                       .expected = "one that was trained on audio",
                       .hint = "`sotto eval` takes a manifest with features."});
  }
  const models::ModelOptions& model = checkpoint_.config.model;
  std::vector<data::Example> examples;
  for (const fs::path& file : files) {
    data::Example& example = examples.emplace_back();
    example.values = data::read_audio({.path = file}, model.sample_rate());
    example.rows = std::ssize(example.values);
    if (example.rows < model.min_rows(/*feature_dim=*/0)) {
      throw DataError({.attempted = fmt::format("transcribing {}", file.string()),
                       .found = fmt::format("{} samples", example.rows),
                       .expected = fmt::format("at least {}", model.min_rows(/*feature_dim=*/0))});
    }
  }
  if (examples.empty()) return {};
  const MicroBatchLimits limits = fit_recognition(dry_, Sizes(examples), {.bytes = arena_bytes_});
  std::vector<std::string> texts(examples.size());
  for (const std::vector<int64_t>& places : split_step(*model_, examples, limits)) {
    const data::MicroBatch batch =
        data::make_micro_batch(examples, places, device_.torch, staging_);
    std::vector<std::string> found = texts_of(model_->recognise(batch), checkpoint_.tokenizer);
    for (size_t i = 0; i < places.size(); ++i)
      texts[static_cast<size_t>(places[i])] = std::move(found[i]);
  }
  return texts;
}

}  // namespace sotto::train
