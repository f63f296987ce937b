// What transformers wants to know of a vocab.json besides its entries: which of them is the blank,
// which stands for the space. Its pipelines do not take a folder without it.
#pragma once

#include <filesystem>

namespace sotto::models {

// Writes tokenizer_config.json beside the folder's vocab.json. Throws DataError where there is no
// vocabulary, or it cannot be written.
void write_tokenizer_config(const std::filesystem::path& folder);

}  // namespace sotto::models
