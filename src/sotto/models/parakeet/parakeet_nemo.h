// Parakeet in NeMo's model_config.yaml: the settings of the network, of its masks and of its loss.
#pragma once

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/models/hugging_face_format.h"
#include "sotto/models/parakeet/parakeet_options.h"

namespace sotto::models {

// NeMo's names of reductions.
struct NemoReduction {
  std::string_view name;
  Reduction reduction;
};
inline constexpr std::array kNemoReductions = {NemoReduction{"mean_batch", Reduction::kUtterances},
                                               NemoReduction{"mean_volume", Reduction::kTokens},
                                               NemoReduction{"mean", Reduction::kCtcMean},
                                               NemoReduction{"sum", Reduction::kSum}};

// Reads settings. `archive` is for errors. Throws ConfigError where they require something that is
// not supported.
HuggingFaceModel read_parakeet_nemo(const nlohmann::json& settings,
                                    const std::filesystem::path& archive);

// The tokenizer's file and pieces in an archive that is written.
struct NemoTokenizer {
  // Names of tokenizer.model, vocab.txt and tokenizer.vocab in the archive.
  std::string model;
  std::string words;
  std::string scores;
  std::vector<std::string> pieces;
};

// Returns the text of a model_config.yaml.
std::string parakeet_nemo_config(const ParakeetOptions& options, const NemoTokenizer& tokenizer,
                                 std::optional<Reduction> reduction);

}  // namespace sotto::models
