#include "sotto/train/recognition/recogniser.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/files/hub_cache.h"
#include "sotto/core/formats/nemo_archive.h"
#include "sotto/core/formats/torch_file.h"
#include "sotto/data/audio/audio.h"
#include "sotto/data/batch/example_list.h"
#include "sotto/data/batch/micro_batch.h"
#include "sotto/decode/window_labels.h"
#include "sotto/models/hub/hugging_face.h"
#include "sotto/models/hub/nemo.h"
#include "sotto/train/step/fit.h"
#include "sotto/train/step/library_constant.h"
#include "sotto/train/step/run_data.h"

namespace sotto::train {

namespace {

namespace fs = std::filesystem;

constexpr const char* kModelConfig = "config.json";

// Returns a Hugging Face folder, possibly in the local cache, or a `.nemo` archive; none where it
// is neither.
std::optional<fs::path> find_foreign(const fs::path& model) {
  const bool is_file = is_nemo_file(model) || (is_openai_file(model) && fs::exists(model));
  if (is_file || fs::exists(model / kModelConfig)) return model;
  if (const std::optional<fs::path> archive = models::find_nemo_in(model)) return archive;
  if (!is_hub_id(model.string())) return std::nullopt;
  try {
    return models::find_model_folder(model.string());
  } catch (const DataError&) {
    return std::nullopt;
  }
}

// Returns the folder with the weights, verified.
fs::path folder_of(const fs::path& model) {
  if (const std::optional<fs::path> found = find_checkpoint(model)) {
    check_checkpoint(*found, CheckpointPart::kNetwork);
    return *found;
  }
  if (const std::optional<fs::path> found = find_foreign(model)) return *found;
  const std::string name = model.string();
  const std::vector<std::string> presets = models::preset_names();
  std::string found = fs::exists(model) ? "no checkpoint and no config.json" : "no such folder";
  std::string hint = "`sotto train` makes one.";
  if (std::ranges::find(presets, name) != presets.end()) found = "a preset, which has no weights";
  if (is_hub_id(name)) {
    found = "no such folder, and no model of that id in the local cache";
    hint = fmt::format("`sotto train` makes one; `hf download {}` fetches one.", name);
  }
  throw DataError({.attempted = fmt::format("finding the model {}", name),
                   .found = found,
                   .expected = "a run, one of its checkpoints, a Hugging Face folder, the id of "
                               "one in the local cache, or a .nemo archive",
                   .hint = hint});
}

// Builds the equivalent of a checkpoint for a network trained by other programs.
Checkpoint read_foreign(const fs::path& folder) {
  RunConfig config;
  config.model = models::read_hugging_face(folder).options;
  models::DataShape shape = models::shape_of_hugging_face(folder);
  data::Tokenizer tokenizer = data::Tokenizer::read(folder, config.data.text);
  tokenizer.widen(shape.vocabulary);
  if (tokenizer.size() != shape.vocabulary) {
    throw DataError(
        {.attempted = fmt::format("reading the tokenizer of {}", folder.string()),
         .found = fmt::format("{} entries", tokenizer.size()),
         .expected = fmt::format("at most {}, as the network's head has", shape.vocabulary)});
  }
  shape.blank = tokenizer.blank();
  RunState state;
  state.shape = shape;
  return {.state = state, .config = std::move(config), .tokenizer = std::move(tokenizer)};
}

Checkpoint read_model(const fs::path& folder) {
  Checkpoint checkpoint = is_checkpoint(folder) ? read_checkpoint(folder) : read_foreign(folder);
  checkpoint.config.data = evaluation_options(std::move(checkpoint.config.data));
  return checkpoint;
}

// The range of samples of an example whose frames are kept.
struct Window {
  int64_t kept_begin = 0;
  int64_t kept_end = 0;
};

// A range of frames of a window.
struct KeptFrames {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
};

// Returns the frames whose middle is within the kept samples of a window.
KeptFrames kept_frames(const Window& window, int64_t num_frames, int64_t num_samples) {
  const double frames_per_sample =
      static_cast<double>(num_frames) / static_cast<double>(num_samples);
  const auto frame_at = [&](int64_t sample) {
    return std::llround(static_cast<double>(sample) * frames_per_sample);
  };
  return {frame_at(window.kept_begin), frame_at(window.kept_end)};
}

// Returns the number of samples in a duration that is not NaN; clamped far above any file's length
// where it is infinite.
int64_t samples_in(double seconds, int64_t rate) {
  return std::llround(std::min(seconds * static_cast<double>(rate), 1e15));
}

// Cuts a file into overlapping windows as examples. The last is as long as the others.
std::vector<Window> cut_recording(const std::vector<float>& samples, int64_t rate,
                                  const TranscribeOptions& options,
                                  std::vector<data::Example>& examples) {
  const int64_t total = std::ssize(samples);
  const int64_t window = std::min(total, samples_in(options.window_s, rate));
  const int64_t overlap = samples_in(options.overlap_s, rate);
  std::vector<Window> windows;
  int64_t kept_until = 0;
  for (int64_t begin = 0; kept_until < total; begin += window - overlap) {
    begin = std::min(begin, total - window);
    const bool is_last = begin + window == total;
    const int64_t end = is_last ? total : begin + window - overlap / 2;
    data::Example& example = examples.emplace_back();
    example.values.assign(samples.begin() + begin, samples.begin() + begin + window);
    example.rows = window;
    windows.push_back({.kept_begin = kept_until - begin, .kept_end = end - begin});
    kept_until = end;
  }
  return windows;
}

// Adapts a checkpoint to recognition: a device without TF32 uses fp32, which it approximates, and
// host memory settings of training do not apply.
Checkpoint for_recognition(Checkpoint checkpoint, const device::Target& target) {
  RunConfig& config = checkpoint.config;
  config.host_memory = {};
  const bool has_tf32 = target.is_cuda() && target.capability >= 80;
  if (has_tf32 || config.arithmetic().compute != Compute::kTf32) return checkpoint;
  config.numerics = Numerics::kFp32;
  config.precision.compute.reset();
  return checkpoint;
}

// Throws Infeasible where the network leaves nothing of the budget for its input.
void check_network_fits(const DryRun& dry, const StepBudget& budget) {
  const int64_t needed = dry.report().high_water;
  if (needed < budget.bytes) return;
  const int64_t bytes = budget.named_for(needed);
  throw Infeasible(
      {.attempted = "loading the network into the budget",
       .found = fmt::format("the network alone needs {}", format_bytes(bytes)),
       .expected = budget.expected_text(),
       .hint = fmt::format("Its input needs memory, too: use a --memory well above {}.",
                           format_mebibytes(bytes))});
}

// Copies rows of any type and device to the host as fp32, without memory of the arena.
void copy_rows(const at::Tensor& rows, std::vector<float>& to) {
  to.resize(static_cast<size_t>(rows.numel()));
  at::from_blob(to.data(), rows.sizes(), at::kFloat).copy_(rows);
}

// Returns all values, and frees each part once it is copied.
std::vector<float> joined_and_released(std::vector<std::vector<float>>& parts) {
  size_t size = 0;
  for (const std::vector<float>& part : parts) size += part.size();
  std::vector<float> joined;
  joined.reserve(size);
  for (std::vector<float>& part : parts) {
    joined.insert(joined.end(), part.begin(), part.end());
    part = {};
  }
  return joined;
}

}  // namespace

Recogniser::Recogniser(const fs::path& model, int64_t budget_bytes, const device::RunDevice& device)
    : folder_(folder_of(model)),
      checkpoint_(for_recognition(read_model(folder_), device.target)),
      device_(device),
      budget_bytes_(budget_bytes),
      budget_(take_budget(checkpoint_.config, checkpoint_.state.shape, device, budget_bytes)),
      host_(device.torch.type(), budget_.host_bytes),
      staging_(host_),
      dry_(checkpoint_.config, checkpoint_.state.shape, DryRun::Purpose::kRecognition,
           device.target),
      arena_(std::make_shared<device::Arena>(
          device.target.is_cuda() ? device::RegionKind::kCuda : device::RegionKind::kHost,
          budget_.bytes)),
      guard_(device.torch.type(), arena_) {
  check_network_fits(dry_, budget_);
  const device::TargetScope target(device_.target);
  model_ = make_model(checkpoint_.config, checkpoint_.state.shape, device.torch, /*trains=*/false);
  if (is_checkpoint(folder_)) {
    load_weights(folder_, *model_);
  } else {
    models::load_hugging_face(folder_, *model_);
  }
}

void Recogniser::set_decode_options(const decode::DecodeOptions& options,
                                    const std::function<void(int64_t)>& progress) {
  decode::check_effects(options, model_->outline());
  checkpoint_.config.decode = options;
  decoding_ = std::make_unique<decode::Decoding>(
      options, checkpoint_.tokenizer,
      decode::DecodingResources{.max_bytes = host_bytes(), .progress = progress});
}

const decode::DecodingOptions& Recogniser::prepare_decoding(bool has_times) {
  if (!decoding_) set_decode_options(checkpoint_.config.decode);
  dry_.set_decoding(checkpoint_.config.decode, has_times);
  return decoding_->options();
}

Evaluation Recogniser::evaluate(const fs::path& path,
                                const std::function<void(int64_t, int64_t)>& progress) {
  const device::TargetScope target(device_.target);
  const std::unique_ptr<data::Source> source =
      open_for_evaluation(checkpoint_.config, checkpoint_.state.shape, checkpoint_.tokenizer, path);
  const auto show = [&](int64_t done) {
    if (progress) progress(done, source->num_items());
  };
  const decode::DecodingOptions& decoding = prepare_decoding(/*has_times=*/false);
  const std::optional<decode::TextNormalizer> normalizer =
      decode::normalizer_of(checkpoint_.config.decode, checkpoint_.tokenizer);
  return train::evaluate(*model_, *source, checkpoint_.tokenizer, staging_,
                         {.task = &checkpoint_.config.model.task(),
                          .limits = fit_recognition(dry_, *source, budget_).limits,
                          .decoding = decoding,
                          .normalizer = normalizer ? &*normalizer : nullptr,
                          .device = device_.torch,
                          .loader_threads = checkpoint_.config.data.loader_threads,
                          .progress = show});
}

int64_t Recogniser::host_bytes() const {
  return device_.target.is_cuda() ? budget_.host_bytes : budget_bytes_;
}

decode::Transcript Recogniser::transcribe(const fs::path& file, const TranscribeOptions& options) {
  check_has_audio_input();
  check_windows(options);
  const std::vector<float> samples = read_samples(file);
  decode::Extent extent{.seconds = static_cast<double>(samples.size()) /
                                   static_cast<double>(checkpoint_.config.model.sample_rate())};
  decode::Labels labels;
  const decode::SearchKind kind = decode::search_kind(model_->outline(), checkpoint_.config.decode);
  if (kind == decode::SearchKind::kFrames) {
    const std::vector<float> logits = logits_of(samples, options);
    extent.num_frames = std::ssize(logits) / checkpoint_.tokenizer.size();
    const decode::DecodingOptions& decoding = prepare_decoding(/*has_times=*/true);
    labels = decode::labels_of(logits, checkpoint_.tokenizer, decoding.frames);
  } else {
    labels = tokens_of(samples, options, extent.num_frames);
  }
  return decode::make_transcript(labels, extent, checkpoint_.tokenizer);
}

at::Tensor Recogniser::logits(const fs::path& file) {
  check_has_audio_input();
  const std::vector<float> samples = read_samples(file);
  const auto seconds = static_cast<double>(samples.size());
  const std::vector<float> values = logits_of(samples, {.window_s = seconds, .overlap_s = 0.0});
  const int64_t width = checkpoint_.tokenizer.size();
  return at::tensor(values).view({-1, width});
}

void Recogniser::recognise_all(const data::ExampleList& list, const MicroBatchBody& body) {
  const device::TargetScope target(device_.target);
  const MicroBatchLimits limits = fit_recognition(dry_, list, budget_).limits;
  for (const std::vector<int64_t>& indices : split_step(*model_, list.examples(), limits)) {
    body(indices, model_->recognise(data::make_micro_batch(
                      list.examples(), indices, staging_,
                      {.device = device_.torch, .decoder = model_->outline().decoder})));
  }
}

std::vector<float> Recogniser::logits_of(const std::vector<float>& samples,
                                         const TranscribeOptions& options) {
  std::vector<data::Example> examples;
  const std::vector<Window> windows =
      cut_recording(samples, checkpoint_.config.model.sample_rate(), options, examples);
  const data::ExampleList list(std::move(examples));
  // Logits of the kept frames of each window, [frames, V] row-major.
  std::vector<std::vector<float>> kept(windows.size());
  decode::DecodeOptions by_frames;
  if (model_->outline().decoder && model_->outline().scores_frames) by_frames.ctc_weight = 1.0;
  dry_.set_decoding(by_frames);
  recognise_all(
      list, [&](std::span<const int64_t> indices, const models::Recognition& recognition) {
        if (!recognition.frames)
          throw ConfigError({.attempted = "recognising audio",
                             .found = "a network without frame scores",
                             .expected = "one with a CTC head",
                             .hint = "Use a network of objective ctc or joint."});
        const models::FrameScores& scores = *recognition.frames;
        for (size_t i = 0; i < indices.size(); ++i) {
          const auto index = static_cast<size_t>(indices[i]);
          const int64_t count = scores.packing.lengths()[i];
          const KeptFrames frames = kept_frames(windows[index], count, list.examples()[index].rows);
          copy_rows(scores.logits.narrow(0, scores.packing.starts()[i] + frames.begin,
                                         frames.end - frames.begin),
                    kept[index]);
        }
      });
  return joined_and_released(kept);
}

decode::Labels Recogniser::tokens_of(const std::vector<float>& samples,
                                     const TranscribeOptions& options, int64_t& num_frames) {
  std::vector<data::Example> examples;
  const std::vector<Window> windows =
      cut_recording(samples, checkpoint_.config.model.sample_rate(), options, examples);
  if (const auto prompts = prompts_of(checkpoint_.config, checkpoint_.tokenizer)) {
    for (data::Example& example : examples) example.labels = prompts->of("");
  }
  const data::ExampleList list(std::move(examples));
  decode::DecodingOptions decoding = prepare_decoding(/*has_times=*/true);
  decoding.has_times = true;
  std::vector<decode::WindowLabels> found(windows.size());
  recognise_all(
      list, [&](std::span<const int64_t> indices, const models::Recognition& recognition) {
        std::vector<decode::Labels> labels = decode::find_labels(recognition, decoding);
        for (size_t i = 0; i < indices.size(); ++i) {
          const auto index = static_cast<size_t>(indices[i]);
          const int64_t count = decode::frames_of_search(recognition)[i];
          const KeptFrames kept = kept_frames(windows[index], count, list.examples()[index].rows);
          found[index] = {.labels = std::move(labels[i]), .begin = kept.begin, .end = kept.end};
        }
      });
  num_frames = 0;
  for (const decode::WindowLabels& window : found) num_frames += window.end - window.begin;
  return decode::join_windows(found, checkpoint_.tokenizer);
}

void Recogniser::check_has_audio_input() const {
  const auto refuse = [](const char* found, const char* expected, const char* hint) {
    throw ConfigError(
        {.attempted = "recognising audio", .found = found, .expected = expected, .hint = hint});
  };
  if (!checkpoint_.config.model.task().is_speech())
    refuse("a language model", "a network that was trained on audio", "");
  if (checkpoint_.state.shape.feature_dim > 0)
    refuse("a network that was trained on stored features", "one that was trained on audio",
           "`sotto eval` takes a manifest with features.");
}

// Each window, and the part of it beyond the previous window, must be long enough for the network:
// shorter advances would never end, or need a window per sample.
void Recogniser::check_windows(const TranscribeOptions& options) const {
  const int64_t rate = checkpoint_.config.model.sample_rate();
  const int64_t shortest = checkpoint_.config.model.min_rows(/*feature_dim=*/0);
  const int64_t longest = checkpoint_.config.model.max_rows(/*feature_dim=*/0);
  if (longest > 0 && samples_in(options.window_s, rate) > longest) {
    const double longest_s = static_cast<double>(longest) / static_cast<double>(rate);
    throw ConfigError(
        {.attempted = "transcribing audio",
         .found = fmt::format("windows of {} s", options.window_s),
         .expected = fmt::format("at most {} s, which the model has positions for", longest_s),
         .hint = fmt::format("Use --window {}, or leave it out.", longest_s)});
  }
  const bool are_numbers = options.window_s >= 0.0 && options.overlap_s >= 0.0;
  if (are_numbers &&
      samples_in(options.window_s, rate) - samples_in(options.overlap_s, rate) >= shortest)
    return;
  const double shortest_s = static_cast<double>(shortest) / static_cast<double>(rate);
  // In whole milliseconds, rounded up, so that the printed value can be used as is.
  const auto least_of = [&](double overlap_s) {
    return std::ceil(1000.0 * (overlap_s + shortest_s) - 1e-6) / 1000.0;
  };
  throw ConfigError(
      {.attempted = "transcribing audio",
       .found =
           fmt::format("windows of {} s that overlap by {} s", options.window_s, options.overlap_s),
       .expected = fmt::format("a window of at least {} s, because the model needs {} s beyond the "
                               "overlap",
                               least_of(options.overlap_s), shortest_s),
       .hint = fmt::format("Without an overlap (--overlap 0) it may be {} s.", least_of(0.0))});
}

std::vector<float> Recogniser::read_samples(const fs::path& file) const {
  const models::ModelOptions& model = checkpoint_.config.model;
  std::vector<float> samples =
      data::read_audio({.path = file, .max_bytes = host_bytes()}, model.sample_rate());
  const int64_t least = model.min_rows(/*feature_dim=*/0);
  if (std::ssize(samples) >= least) return samples;
  throw DataError({.attempted = fmt::format("recognising {}", file.string()),
                   .found = fmt::format("{} samples", samples.size()),
                   .expected = fmt::format("at least {}", least)});
}

}  // namespace sotto::train
