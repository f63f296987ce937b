// Generates a synthetic corpus: espeak-ng speaks strings of digits and short commands in several
// voices and speeds, with seeded noise added. 1 to 12 s per utterance; the voices of dev and test
// are not among those of train. The same seed gives the same corpus with the same version of
// espeak-ng.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "sotto/core/config/options.h"

namespace sotto::data {

struct DemoCorpusOptions {
  int64_t train_utterances = 800;
  int64_t dev_utterances = 60;
  int64_t test_utterances = 60;
  uint64_t seed = 1;
};

struct DemoCorpus {
  std::filesystem::path train;  // manifests
  std::filesystem::path dev;
  std::filesystem::path test;
  double audio_seconds = 0.0;
};

// Creates the folder with audio and manifests atomically. Calls `progress` with the number of
// utterances done. Throws ConfigError where the folder exists or espeak-ng is not installed.
DemoCorpus make_demo_corpus(const std::filesystem::path& folder, const DemoCorpusOptions& options,
                            const std::function<void(int64_t)>& progress = {});

}  // namespace sotto::data
