#include "sotto/train/step/run_data.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/files/cache_folder.h"
#include "sotto/core/hash.h"
#include "sotto/data/batch/dataset.h"
#include "sotto/data/batch/text_rows.h"
#include "sotto/data/text/text_sample.h"
#include "sotto/device/host_info.h"

namespace sotto::train {

namespace {

namespace fs = std::filesystem;

// A share refers to the RAM that is free now.
int64_t host_bytes(const MemorySize& size, int64_t automatic) {
  if (size.kind == MemorySize::Kind::kAuto) return automatic;
  if (size.kind == MemorySize::Kind::kBytes) return size.bytes;
  return static_cast<int64_t>(size.share * static_cast<double>(device::read_host().free_bytes));
}

int64_t cache_bytes(const DataOptions& options) {
  const bool is_disk = options.cache == data::CacheKind::kDisk;
  return host_bytes(options.cache_size,
                    is_disk ? int64_t{16} << 30 : device::read_host().free_bytes / 4);
}

data::AudioTreatment treatment_of(const RunConfig& config) {
  data::AudioTreatment treatment;
  if (!config.data.augment.is_off()) {
    treatment.augmentation = std::make_shared<const data::Augmentation>(
        config.data.augment, static_cast<uint64_t>(config.seed), config.model.sample_rate());
  }
  if (config.data.cache != data::CacheKind::kNone) {
    treatment.cache = std::make_shared<data::AudioCache>(config.data.cache,
                                                         cache_bytes(config.data), cache_folder());
  }
  return treatment;
}

data::Manifest read_manifest(const fs::path& path, const PreparingProgress& progress) {
  data::IndexOptions options;
  if (progress) {
    options.on_progress = [&](int64_t done, int64_t total) { progress("indexing", done, total); };
  }
  return data::Manifest::read(path, options);
}

// Returns the options for a manifest's utterances, whose labels are those of the tokenizer.
data::DatasetOptions options_for(const RunConfig& config, const data::Manifest& manifest,
                                 const data::Tokenizer& tokenizer) {
  data::DatasetOptions options = dataset_options(config, manifest);
  options.prompts = prompts_of(config, tokenizer);
  return options;
}

// A run of a network that is built for one vocabulary cannot make its own.
void check_has_tokenizer(const RunConfig& config) {
  if (!config.model.prompts()) return;
  throw ConfigError(
      {.attempted = fmt::format("choosing the tokenizer of {}", config.model.preset()),
       .found = "no data.tokenizer",
       .expected = "that of a Whisper model",
       .hint = "Name its folder: --set data.tokenizer=FOLDER."});
}

class Speech : public RunData {
 public:
  Speech(const RunConfig& config, std::optional<data::Tokenizer> of_checkpoint,
         const PreparingProgress& progress)
      : RunData(config), manifest_(read_manifest(config.data.train, progress)) {
    const data::TextRules& rules = config.data.text;
    if (of_checkpoint) {
      tokenizer_ = std::move(of_checkpoint);
    } else if (!config.data.tokenizer.empty()) {
      tokenizer_ = data::Tokenizer::read(config.data.tokenizer, rules);
    } else {
      check_has_tokenizer(config);
      tokenizer_ = data::Tokenizer::of_characters(manifest_, rules);
    }
    // Files of older models do not name the last entries.
    if (prompts_of(config, *tokenizer_) != nullptr)
      tokenizer_->widen(config.model.usual_vocabulary());
  }

  models::DataShape shape() const override {
    return {.vocabulary = tokenizer_->size(),
            .blank = tokenizer_->blank(),
            .feature_dim = manifest_.feature_dim()};
  }

  uint64_t fingerprint() const override { return manifest_.fingerprint(); }

  std::shared_ptr<data::Source> make_train(const LongestFitting& longest_fitting) override {
    data::DatasetOptions options = options_for(config_, manifest_, *tokenizer_);
    const data::AudioTreatment treatment = treatment_of(config_);
    cache_ = treatment.cache;
    auto train = std::make_shared<data::Dataset>(manifest_, *tokenizer_, options, treatment);
    if (config_.data.too_large == data::Policy::kError) return train;
    const double fitting_s = longest_fitting(*train);
    if (options.max_seconds == 0.0 || options.max_seconds > fitting_s)
      options.max_seconds = fitting_s;
    options.too_long = config_.data.too_large;
    return std::make_shared<data::Dataset>(manifest_, *tokenizer_, options, treatment);
  }

  std::unique_ptr<data::Source> make_dev() const override {
    if (config_.data.dev.empty()) return nullptr;
    const data::Manifest dev = data::Manifest::read(config_.data.dev);
    return std::make_unique<data::Dataset>(dev, *tokenizer_,
                                           options_for(config_, dev, *tokenizer_));
  }

  data::AudioCache* audio_cache() const override { return cache_.get(); }

 private:
  data::Manifest manifest_;
  // Shared with the source.
  std::shared_ptr<data::AudioCache> cache_;
};

// Returns the folder for a text's tokens where its own folder is not writable; else empty.
fs::path tokens_folder(const fs::path& text) {
  const fs::path folder = fs::absolute(text).parent_path();
  if (access(folder.c_str(), W_OK) == 0) return {};
  return cache_folder() / "tokens" / fmt::format("{:016x}", hash_bytes(folder.string()));
}

std::unique_ptr<data::Source> open_text(const RunConfig& config, const data::Tokenizer& tokenizer,
                                        const fs::path& path, const PreparingProgress& progress) {
  std::error_code ignored;
  const auto total = static_cast<int64_t>(fs::file_size(path, ignored));
  const auto show = [&](int64_t done) {
    if (progress) progress("encoding", done, total);
  };
  const data::TextSource source{
      .path = path, .documents = config.data.documents, .cache = tokens_folder(path)};
  return std::make_unique<data::TextRows>(path, data::TokenFile::open(source, tokenizer, show),
                                          config.data.rows());
}

class Text : public RunData {
 public:
  Text(const RunConfig& config, std::optional<data::Tokenizer> of_checkpoint,
       PreparingProgress progress)
      : RunData(config), progress_(std::move(progress)) {
    const data::TextRules& rules = config.data.text;
    if (of_checkpoint) {
      tokenizer_ = std::move(of_checkpoint);
    } else if (!config.data.tokenizer.empty()) {
      tokenizer_ = data::Tokenizer::read(config.data.tokenizer, rules);
    } else {
      data::CharacterSet characters;
      data::visit_texts({config.data.train}, rules,
                        [&](const std::string& text) { characters.add(text); });
      tokenizer_ = data::Tokenizer(
          data::Vocabulary::from_characters(characters, /*has_unknown=*/true), rules);
    }
    train_ = open_text(config, *tokenizer_, config.data.train, progress_);
  }

  models::DataShape shape() const override { return {.vocabulary = tokenizer_->size()}; }

  uint64_t fingerprint() const override { return train_->fingerprint(); }

  std::shared_ptr<data::Source> make_train(const LongestFitting&) override { return train_; }

  std::unique_ptr<data::Source> make_dev() const override {
    if (config_.data.dev.empty()) return nullptr;
    return open_text(config_, *tokenizer_, config_.data.dev, progress_);
  }

 private:
  PreparingProgress progress_;
  std::shared_ptr<data::Source> train_;
};

}  // namespace

int64_t loader_bytes(const DataOptions& options) {
  return host_bytes(options.loader_memory,
                    std::min(int64_t{1} << 30, device::read_host().free_bytes / 8));
}

std::unique_ptr<RunData> open_run_data(const RunConfig& config,
                                       std::optional<data::Tokenizer> of_checkpoint,
                                       const PreparingProgress& progress) {
  if (config.model.task().is_text())
    return std::make_unique<Text>(config, std::move(of_checkpoint), progress);
  return std::make_unique<Speech>(config, std::move(of_checkpoint), progress);
}

std::shared_ptr<const data::WhisperPrompts> prompts_of(const RunConfig& config,
                                                       const data::Tokenizer& tokenizer) {
  const std::optional<data::PromptRules> rules = config.model.prompts();
  if (!rules) return nullptr;
  return std::make_shared<const data::WhisperPrompts>(
      tokenizer, *rules,
      data::PromptOptions{.language = config.data.language, .task = config.data.task});
}

DataOptions evaluation_options(DataOptions of_run) {
  const data::DatasetOptions defaults;
  of_run.utterances.min_seconds = defaults.min_seconds;
  of_run.utterances.max_seconds = defaults.max_seconds;
  of_run.utterances.max_samples = defaults.max_samples;
  of_run.utterances.too_long = defaults.too_long;
  return of_run;
}

namespace {

std::string kind_of(int64_t feature_dim) {
  return feature_dim == 0 ? "audio" : fmt::format("stored features of width {}", feature_dim);
}

}  // namespace

std::unique_ptr<data::Source> open_for_evaluation(const RunConfig& config,
                                                  const models::DataShape& shape,
                                                  const data::Tokenizer& tokenizer,
                                                  const fs::path& path) {
  if (config.model.task().is_text()) return open_text(config, tokenizer, path, {});
  const data::Manifest manifest = data::Manifest::read(path);
  if (manifest.feature_dim() != shape.feature_dim) {
    throw DataError({.attempted = fmt::format("evaluating on {}", path.string()),
                     .found = kind_of(manifest.feature_dim()),
                     .expected = fmt::format("{}, as in training", kind_of(shape.feature_dim))});
  }
  return std::make_unique<data::Dataset>(manifest, tokenizer,
                                         options_for(config, manifest, tokenizer));
}

}  // namespace sotto::train
