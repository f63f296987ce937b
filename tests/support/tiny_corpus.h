// A corpus of stored features that a tiny network learns in seconds: each letter is a bump in a
// dimension of its own. Written as `.f16` with manifests, as data of users is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "sotto/data/batch/dataset.h"
#include "sotto/train/step/run_config.h"

namespace sotto::test {

inline constexpr int64_t kTinyFeatures = 8;

// Writes NAME.f16 and NAME.jsonl with that many utterances of 1 to 5 letters a to d; returns the
// manifest.
std::filesystem::path write_tiny_corpus(const std::filesystem::path& folder,
                                        const std::string& name, int64_t num_utterances,
                                        uint64_t seed);

// The same utterances in memory, with labels 1 .. 4 for the letters.
std::vector<data::Example> tiny_examples(int64_t num_utterances, uint64_t seed);

// A network of two layers for it, with dropout, and training that ends in seconds.
train::RunConfig tiny_config();

// Of tiny_examples().
inline constexpr models::DataShape kTinyShape{
    .vocabulary = 5, .blank = 0, .feature_dim = kTinyFeatures};

}  // namespace sotto::test
