#include "sotto/train/recogniser.h"

#include <utility>

#include "sotto/core/error.h"
#include "sotto/data/audio.h"
#include "sotto/data/example_list.h"
#include "sotto/data/micro_batch.h"
#include "sotto/train/fit.h"
#include "sotto/train/library_constant.h"
#include "sotto/train/run_data.h"
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

Evaluation Recogniser::evaluate(const fs::path& path,
                                const std::function<void(int64_t, int64_t)>& progress) {
  const std::unique_ptr<data::Source> source = open_for_evaluation(
      checkpoint_.config, checkpoint_.state.shape, checkpoint_.tokenizer, path);
  const auto show = [&](int64_t done) {
    if (progress) progress(done, source->num_items());
  };
  return train::evaluate(*model_, *source, checkpoint_.tokenizer, staging_,
                         {.limits = fit_recognition(dry_, *source, {.bytes = arena_bytes_}),
                          .device = device_.torch,
                          .loader_threads = checkpoint_.config.data.loader_threads,
                          .progress = show});
}

std::vector<std::string> Recogniser::transcribe(const std::vector<fs::path>& files) {
  if (checkpoint_.config.model.is_language_model()) {
    throw ConfigError({.attempted = "transcribing audio",
                       .found = "a language model",
                       .expected = "a network that was trained on audio"});
  }
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
  const data::ExampleList list(std::move(examples));
  const MicroBatchLimits limits = fit_recognition(dry_, list, {.bytes = arena_bytes_});
  std::vector<std::string> texts(files.size());
  for (const std::vector<int64_t>& places : split_step(*model_, list.examples(), limits)) {
    const data::MicroBatch batch =
        data::make_micro_batch(list.examples(), places, device_.torch, staging_);
    std::vector<std::string> found = texts_of(model_->recognise(batch), checkpoint_.tokenizer);
    for (size_t i = 0; i < places.size(); ++i)
      texts[static_cast<size_t>(places[i])] = std::move(found[i]);
  }
  return texts;
}

}  // namespace sotto::train
