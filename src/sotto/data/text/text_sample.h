// The texts on which a tokenizer is trained.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "sotto/data/text/text_rules.h"

namespace sotto::data {

struct TextSampleOptions {
  // Maximum number of texts kept in memory: a random sample if there are more.
  int64_t max_texts = 1'000'000;
  int64_t seed = 1;
};

struct TextSample {
  // Texts after the rules, none empty.
  std::vector<std::string> texts;
  // Number of all texts that were read.
  int64_t num_texts = 0;
  int64_t num_bytes = 0;
};

// Calls `take` with every text of the files after the rules: lines of plain text, or the texts of
// JSON lines, such as a manifest's. `progress` receives the bytes read. Throws DataError where a
// file cannot be read.
void visit_texts(const std::vector<std::filesystem::path>& inputs, const TextRules& rules,
                 const std::function<void(std::string)>& take,
                 const std::function<void(int64_t)>& progress = {});

// Returns the same texts for the same files, rules and options. Also throws where there is no text.
TextSample sample_texts(const std::vector<std::filesystem::path>& inputs, const TextRules& rules,
                        const TextSampleOptions& options,
                        const std::function<void(int64_t)>& progress = {});

}  // namespace sotto::data
