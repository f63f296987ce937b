#include "sotto/plan/run/model_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "sotto/core/error.h"
#include "sotto/core/files/hub_cache.h"
#include "sotto/core/formats/nemo_archive.h"
#include "sotto/core/formats/torch_file.h"
#include "sotto/train/checkpoint/checkpoint.h"

namespace sotto::plan {

namespace {

struct OtherKind {
  // Substring of the lower-case name.
  std::string_view mark;
  std::string_view title;
};

// Popular speech models that would not load even if downloaded.
constexpr std::array kOtherKinds = {
    OtherKind{"hubert", "HuBERT"},       OtherKind{"wavlm", "WavLM"},
    OtherKind{"data2vec", "data2vec"},   OtherKind{"w2v-bert", "W2V-BERT"},
    OtherKind{"w2v2-bert", "W2V-BERT"},  OtherKind{"canary", "Canary"},
    OtherKind{"conformer", "Conformer"}, OtherKind{"moonshine", "Moonshine"},
    OtherKind{"seamless", "Seamless"},   OtherKind{"speecht5", "SpeechT5"}};

// Whether it is the id of a downloaded model; its folder then says what it is.
bool is_cached(const std::string& name) {
  if (!is_hub_id(name)) return false;
  try {
    find_hub_folder(name);
    return true;
  } catch (const DataError&) {
    return false;
  }
}

void refuse_other_kind(const std::string& name) {
  std::string small = name;
  std::ranges::transform(small, small.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const OtherKind& kind : kOtherKinds) {
    if (small.find(kind.mark) == std::string::npos) continue;
    throw ConfigError(
        {.attempted = fmt::format("finding the model '{}'", name),
         .found = fmt::format("a {} model, by its name", kind.title),
         .expected = "a preset, or a wav2vec2, XLS-R, Parakeet or Whisper model of Hugging Face",
         .hint = "Type: --model xls-r-300m for the network with random weights, or "
                 "hf download facebook/wav2vec2-xls-r-300m and --model "
                 "facebook/wav2vec2-xls-r-300m for the pretrained one."});
  }
}

ModelChoice of_preset(const std::string& name) {
  ModelChoice choice{.options = models::ModelOptions::of_preset(name), .folder = {}, .notes = {}};
  choice.reduction = choice.options.family().reduction;
  return choice;
}

}  // namespace

ModelChoice choose_model(const std::string& name) {
  const std::vector<std::string> presets = models::preset_names();
  const bool is_preset = std::ranges::find(presets, name) != presets.end();
  const bool is_path =
      std::filesystem::is_directory(name) || is_nemo_file(name) || is_openai_file(name);
  const bool is_there = is_path || is_cached(name);
  if (!is_preset && !is_there) refuse_other_kind(name);
  if (is_preset || !(is_path || is_hub_id(name))) return of_preset(name);
  const std::filesystem::path folder = models::find_model_folder(name);
  if (train::is_checkpoint(folder))
    train::check_checkpoint(folder, train::CheckpointPart::kNetwork);
  models::HuggingFaceModel found = models::read_hugging_face(folder);
  return {.options = std::move(found.options),
          .folder = std::move(found.folder),
          .reduction = found.reduction,
          .notes = std::move(found.notes)};
}

}  // namespace sotto::plan
