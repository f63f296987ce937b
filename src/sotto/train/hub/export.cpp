#include "sotto/train/hub/export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "sotto/core/config/config.h"
#include "sotto/core/config/config_yaml.h"
#include "sotto/core/error.h"
#include "sotto/core/files/atomic_folder.h"
#include "sotto/core/files/file_list.h"
#include "sotto/core/files/hub_cache.h"
#include "sotto/core/files/text_file.h"
#include "sotto/core/formats/nemo_archive.h"
#include "sotto/data/audio/audio_path.h"
#include "sotto/data/import/run_program.h"
#include "sotto/data/text/byte_bpe_files.h"
#include "sotto/data/text/vocabulary.h"
#include "sotto/models/hub/hugging_face.h"
#include "sotto/models/hub/nemo.h"
#include "sotto/train/hub/model_card.h"
#include "sotto/train/hub/model_facts.h"
#include "sotto/train/run/run_files.h"
#include "sotto/train/step/step.h"

namespace sotto::train {

namespace {

namespace fs = std::filesystem;

constexpr const char* kCard = "README.md";
constexpr const char* kVocabulary = "vocab.json";
// Tokenizer files of Hugging Face folders other than the vocabulary.
constexpr const char* kTokenizerConfig = "tokenizer_config.json";
constexpr std::array kTokenizerFiles = {
    kTokenizerConfig, "special_tokens_map.json", "added_tokens.json",     "tokenizer.json",
    "merges.txt",     "normalizer.json",         "generation_config.json"};

// Input of an export, whichever folder it comes from.
struct Source {
  models::ModelOptions options;
  models::DataShape shape;
  std::unique_ptr<models::Model> model;
  std::optional<RunFacts> run = std::nullopt;
  std::string base_model = {};
  std::vector<std::string> notes = {};
  std::optional<models::Reduction> reduction = std::nullopt;
};

// Returns the id of a model's folder in the cache, or of the folder of an archive.
std::string base_model_of(const fs::path& model) {
  return hub_id_of(is_nemo_file(model) ? model.parent_path() : model).value_or("");
}

Source open_checkpoint(const fs::path& folder, const Checkpoint& checkpoint) {
  const RunConfig& config = checkpoint.config;
  Source source{.options = config.model,
                .shape = checkpoint.state.shape,
                .model = make_model(config, checkpoint.state.shape, at::kCPU, /*trains=*/false),
                .run = read_run_facts(folder, checkpoint),
                .base_model = base_model_of(config.init_from),
                .reduction = config.reduction};
  load_weights(folder, *source.model);
  return source;
}

Source open_hugging_face(const fs::path& folder) {
  models::HuggingFaceModel found = models::read_hugging_face(folder);
  const models::DataShape shape = models::shape_of_hugging_face(folder);
  Source source{.options = found.options,
                .shape = shape,
                .model = found.options.make(shape, {.trains = false}),
                .base_model = base_model_of(folder),
                .reduction = found.reduction};
  source.notes = models::load_hugging_face(folder, *source.model);
  return source;
}

// Returns the configuration without paths of the machine that it was used on.
RunConfig without_paths(RunConfig config) {
  config.init_from.clear();
  config.data.train.clear();
  config.data.dev.clear();
  config.data.tokenizer.clear();
  return config;
}

void write_checkpoint_files(const fs::path& from, const Checkpoint& checkpoint,
                            const fs::path& folder) {
  checkpoint.tokenizer.write(folder);
  write_text_synced(folder / "config.yaml",
                    format_yaml(write_options(without_paths(checkpoint.config))));
  fs::copy_file(from / kStateFile, folder / kStateFile);
}

void copy_tokenizer(const fs::path& from, const fs::path& folder) {
  if (is_nemo_file(from)) return data::Tokenizer::read(from, {}).write(folder);
  if (const std::optional<fs::path> tokenizer = data::Tokenizer::find(from))
    fs::copy_file(*tokenizer, folder / tokenizer->filename());
  for (const char* name : kTokenizerFiles) {
    if (fs::exists(from / name) && !fs::exists(folder / name))
      fs::copy_file(from / name, folder / name);
  }
}

// Writes the settings that transformers needs in addition to a vocab.json: its pipelines reject a
// folder without them.
void write_tokenizer_config(const fs::path& folder) {
  const data::Vocabulary vocabulary = data::Vocabulary::read(folder / kVocabulary);
  write_text_synced(folder / kTokenizerConfig,
                    data::tokenizer_config_json(vocabulary.settings()).dump(2) + "\n");
}

CardTokenizer tokenizer_in(const fs::path& folder) {
  const std::optional<fs::path> tokenizer = data::Tokenizer::find(folder);
  if (!tokenizer) return CardTokenizer::kNone;
  if (data::is_byte_bpe(*tokenizer)) return CardTokenizer::kByteBpe;
  return tokenizer->filename() == kVocabulary ? CardTokenizer::kCharacters
                                              : CardTokenizer::kSentencePiece;
}

// Whether a pipeline of transformers loads the folder: a vocabulary of characters of a wav2vec2, or
// the files of a Parakeet.
bool has_pipeline(const fs::path& folder, const models::ModelOptions& options) {
  if (options.family().name == "wav2vec2")
    return tokenizer_in(folder) == CardTokenizer::kCharacters;
  return fs::exists(folder / "tokenizer.json") && fs::exists(folder / models::kHubProcessor);
}

ModelFacts facts_of(const ExportRequest& request, Source& source, const fs::path& folder) {
  const fs::path name =
      request.repository.empty() ? fs::weakly_canonical(request.out) : fs::path(request.repository);
  return {.title = name.filename().string(),
          .repository = request.repository,
          .model = source.options,
          .profile = models::profile_model(source.options, source.shape),
          .feature_dim = source.shape.feature_dim,
          .tokenizer = tokenizer_in(folder),
          .has_pipeline = has_pipeline(folder, source.options),
          .is_checkpoint = fs::exists(folder / kStateFile),
          .languages = request.languages,
          .license = request.license,
          .base_model = source.base_model,
          .run = std::move(source.run)};
}

std::string last_line(std::string text) {
  text.erase(text.find_last_not_of(" \r\n") + 1);
  return text.substr(text.find_last_of('\n') + 1);
}

std::vector<std::string> push_words(const fs::path& folder, const std::string& repository) {
  return {"hf", "upload", repository, folder.string(), "."};
}

// Whether the folder holds an earlier export and nothing else: a new one may replace it, for
// instance after a failed upload.
bool is_earlier_export(const fs::path& folder) {
  std::error_code failed;
  const fs::path card = folder / kCard;
  if (!fs::is_regular_file(card, failed) || fs::exists(folder / kStateFile, failed)) return false;
  if (read_text_file(card).find("- \"sotto\"\n") == std::string::npos) return false;
  for (auto entry = fs::directory_iterator(folder, failed);
       !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
    if (!entry->is_regular_file(failed)) return false;
  }
  return !failed;
}

[[noreturn]] void refuse_archive(const std::string& found, const std::string& expected) {
  throw ConfigError({.attempted = "writing a .nemo archive",
                     .found = found,
                     .expected = expected,
                     .hint = "Without .nemo at the end of --out a folder is written."});
}

// Returns the bytes of the tokenizer, which must fit the network.
std::string archive_tokenizer(const data::Tokenizer& tokenizer, const models::DataShape& shape) {
  const std::optional<std::string> model = tokenizer.sentence_piece();
  if (!model) refuse_archive("a tokenizer of characters", "a SentencePiece model");
  if (tokenizer.size() != shape.vocabulary || tokenizer.blank() != shape.blank)
    refuse_archive(fmt::format("a tokenizer with {} entries, of which {} is the blank",
                               tokenizer.size(), tokenizer.blank()),
                   fmt::format("{} entries, and the blank {}, as the network has", shape.vocabulary,
                               shape.blank));
  return *model;
}

std::vector<std::string> export_archive(const ExportRequest& request, Source source,
                                        const data::Tokenizer& tokenizer,
                                        std::vector<models::NamedTensor> weights) {
  models::check_known_to_nemo(source.options);
  if (source.shape.feature_dim > 0)
    refuse_archive("a network that was trained on stored features",
                   "one that was trained on audio");
  const fs::path parent = request.out.parent_path();
  std::error_code failed;
  if (!parent.empty()) fs::create_directories(parent, failed);
  if (failed)
    throw DataError({.attempted = fmt::format("writing {}", request.out.string()),
                     .found = failed.message(),
                     .expected = "a folder in which files can be created"});
  std::vector<std::string> notes = std::move(source.notes);
  for (std::string& note :
       models::write_nemo(request.out, {.options = source.options,
                                        .shape = source.shape,
                                        .weights = std::move(weights),
                                        .tokenizer = archive_tokenizer(tokenizer, source.shape),
                                        .reduction = source.reduction}))
    notes.push_back(std::move(note));
  return notes;
}

}  // namespace

bool is_nemo_export(const fs::path& out) {
  return is_nemo_file(out);
}

std::vector<std::string> export_model(const ExportRequest& request) {
  if (!is_earlier_export(request.out)) check_is_new(request.out);
  const std::optional<fs::path> from = find_checkpoint(request.folder);
  std::optional<Checkpoint> checkpoint;
  if (from) {
    check_checkpoint(*from, CheckpointPart::kNetwork);
    checkpoint = read_checkpoint(*from);
  }
  Source source =
      checkpoint ? open_checkpoint(*from, *checkpoint) : open_hugging_face(request.folder);
  std::vector<models::NamedTensor> weights =
      checkpoint ? source.model->named_weights()
                 : models::weights_as_stored(request.folder, *source.model);
  if (is_nemo_export(request.out))
    return export_archive(
        request, std::move(source),
        checkpoint ? checkpoint->tokenizer : data::Tokenizer::read(request.folder, {}),
        std::move(weights));
  AtomicFolder aside(request.out);
  const fs::path& folder = aside.path();
  models::write_tensor_folder(folder, weights, request.max_shard_bytes);
  if (checkpoint) {
    write_model_config(folder, *checkpoint);
    write_checkpoint_files(*from, *checkpoint, folder);
  } else {
    models::write_hugging_face_config(folder,
                                      {.model = source.options,
                                       .shape = source.shape,
                                       .source = models::read_model_config(request.folder)});
    copy_tokenizer(request.folder, folder);
  }
  const bool is_of_transformers = source.options.family().hugging_face.has_value();
  if (is_of_transformers && tokenizer_in(folder) == CardTokenizer::kCharacters &&
      !fs::exists(folder / kTokenizerConfig))
    write_tokenizer_config(folder);
  if (checkpoint) {
    // Every checkpoint has this list; the card, which people edit, is excluded and written later.
    FileList list;
    list.add_rest(folder);
    list.write(folder);
  }
  std::vector<std::string> notes = std::move(source.notes);
  write_text_synced(folder / kCard, model_card(facts_of(request, source, folder)));
  aside.commit();
  return notes;
}

std::string push_line(const fs::path& folder, const std::string& repository) {
  std::vector<std::string> words = push_words(folder, repository);
  for (std::string& word : words) word = data::shell_word(word);
  return fmt::format("{}", fmt::join(words, " "));
}

bool push_folder(const fs::path& folder, const std::string& repository) {
  const data::ProgramResult result = data::run_program(push_words(folder, repository));
  if (!result.has_started) return false;
  if (result.exit_code == 0) return true;
  throw DataError(
      {.attempted = fmt::format("uploading {} to {}", folder.string(), repository),
       .found = fmt::format("hf ended with {}: {}", result.exit_code, last_line(result.output)),
       .expected = "a repository that you may write to",
       .hint = fmt::format("The folder is complete. `hf auth login` signs in; then type: {}",
                           push_line(folder, repository))});
}

}  // namespace sotto::train
