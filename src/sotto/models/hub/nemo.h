// `.nemo` archives of NeMo: the settings of a network from its model_config.yaml, weights under
// NeMo's names, and writing of archives. The functions of hugging_face.h use these where a model is
// such a file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sotto/models/hub/hugging_face.h"

namespace sotto::models {

// Returns the only archive in a folder without a config.json, as `hf download` fetches it; none
// where there is none.
std::optional<std::filesystem::path> find_nemo_in(const std::filesystem::path& folder);

// Reads the network of an archive, and checks that its weights and its tokenizer are those of that
// network. Throws DataError where the archive is broken or its parts do not fit, ConfigError where
// it requires something that is not supported.
HuggingFaceModel read_nemo(const std::filesystem::path& path);

// Returns the vocabulary and the blank, which follows the pieces of the tokenizer.
DataShape shape_of_nemo(const std::filesystem::path& path);

// Returns which tensors an archive may have in addition to those of a network, or lack: those of a
// head, where another one is trained.
ImportRules nemo_rules();

// Returns a name of Hugging Face's Parakeet as NeMo has it.
std::string nemo_name(const std::string& name);
// Returns weights under NeMo's names.
std::vector<NamedTensor> in_nemo_names(std::vector<NamedTensor> weights);

struct NemoModel {
  const ModelOptions& options;
  const DataShape& shape;
  // Under the names of Hugging Face.
  std::vector<NamedTensor> weights;
  // The bytes of a SentencePiece model; one of its pieces may be the blank.
  std::string tokenizer;
  std::optional<Reduction> reduction = std::nullopt;
};

// Throws ConfigError for a network that NeMo does not have.
void check_known_to_nemo(const ModelOptions& options);

// Writes an archive atomically. The blank becomes the last entry, as NeMo has it. Returns notes for
// the user, one line each. Throws ConfigError for a network that NeMo does not have, DataError
// where the file cannot be written.
std::vector<std::string> write_nemo(const std::filesystem::path& path, NemoModel model);

}  // namespace sotto::models
