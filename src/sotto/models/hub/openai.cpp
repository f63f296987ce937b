#include "sotto/models/hub/openai.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/formats/torch_file.h"
#include "sotto/models/whisper/whisper_options.h"

namespace sotto::models {

namespace {

namespace fs = std::filesystem;

// A vocabulary of this size, or a larger one, has tokens for languages.
constexpr int64_t kLeastMultilingual = 51'865;

// The numbers under `dims`.
class Dims {
 public:
  explicit Dims(const fs::path& path) : path_(path), numbers_(TorchFile::open(path).dims()) {}

  int64_t at(const char* key) const {
    const auto found = numbers_.find(key);
    if (found != numbers_.end()) return found->second;
    throw DataError({.attempted = fmt::format("reading the model of {}", path_.string()),
                     .found = fmt::format("no dims.{}", key),
                     .expected = "a checkpoint of Whisper as OpenAI publishes it: dims and "
                                 "model_state_dict",
                     .hint = "Other weights are read from the folder of a Hugging Face model."});
  }

 private:
  const fs::path& path_;
  std::map<std::string, int64_t> numbers_;
};

data::WhisperNumbers numbers_of(int64_t vocabulary) {
  data::WhisperNumbers numbers;
  if (vocabulary < kLeastMultilingual) numbers = data::WhisperNumbers::of_english();
  numbers.vocabulary = vocabulary;
  return numbers;
}

// Parts of names, in the order in which they are replaced.
constexpr std::array kReplaced = std::to_array<std::pair<std::string_view, std::string_view>>(
    {{".layers.", ".blocks."},
     {".self_attn_layer_norm.", ".attn_ln."},
     {".encoder_attn_layer_norm.", ".cross_attn_ln."},
     {".final_layer_norm.", ".mlp_ln."},
     {".self_attn.", ".attn."},
     {".encoder_attn.", ".cross_attn."},
     {".q_proj.", ".query."},
     {".k_proj.", ".key."},
     {".v_proj.", ".value."},
     {".out_proj.", ".out."},
     {".fc1.", ".mlp.0."},
     {".fc2.", ".mlp.2."},
     {"encoder.layer_norm.", "encoder.ln_post."},
     {"decoder.layer_norm.", "decoder.ln."},
     {"embed_positions.weight", "positional_embedding"},
     {"embed_tokens.", "token_embedding."}});

}  // namespace

HuggingFaceModel read_openai(const fs::path& path) {
  const Dims dims(path);
  HuggingFaceModel model{
      .folder = path, .options = ModelOptions::of_preset("whisper-tiny"), .notes = {}};
  auto& options = model.options.as<WhisperOptions>();
  options.features.num_mels = dims.at("n_mels");
  options.positions = dims.at("n_audio_ctx");
  options.width = dims.at("n_audio_state");
  options.heads = dims.at("n_audio_head");
  options.layers = dims.at("n_audio_layer");
  options.tokens = numbers_of(dims.at("n_vocab"));
  options.max_tokens = dims.at("n_text_ctx");
  options.decoder_heads = dims.at("n_text_head");
  options.decoder_layers = dims.at("n_text_layer");
  options.hidden = options.decoder_hidden = 4 * options.width;
  model.reduction = Reduction::kTokens;
  model.notes.emplace_back(
      "OpenAI's checkpoints have no tokenizer: data.tokenizer names the folder of one");
  return model;
}

DataShape shape_of_openai(const fs::path& path) {
  const data::WhisperNumbers numbers = numbers_of(Dims(path).at("n_vocab"));
  return {.vocabulary = numbers.vocabulary, .blank = numbers.end};
}

std::string openai_name(std::string_view name) {
  constexpr std::string_view kPrefix = "model.";
  std::string translated(name.substr(name.starts_with(kPrefix) ? kPrefix.size() : 0));
  for (const auto& [theirs, ours] : kReplaced) {
    const size_t at = translated.find(theirs);
    if (at != std::string::npos) translated.replace(at, theirs.size(), ours);
  }
  return translated;
}

std::vector<NamedTensor> in_openai_names(std::vector<NamedTensor> weights) {
  for (NamedTensor& named : weights) named.name = openai_name(named.name);
  return weights;
}

}  // namespace sotto::models
