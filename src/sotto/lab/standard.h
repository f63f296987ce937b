// The standard run that a suite of limits is compared with: training with padded batches in another
// program. It is read from a file that such a run wrote (bench/standard_peer.py), or estimated.
#pragma once

#include <filesystem>
#include <vector>

#include "sotto/lab/result.h"
#include "sotto/train/step/run_config.h"

namespace sotto::lab {

inline constexpr const char* kStandardName = "standard";

// Returns the run, and repetitions of it where the file has word error rates of several seeds.
// Throws DataError where it is not such a file, ConfigError where it is of another effective batch
// than `config`.
std::vector<Result> read_standard(const std::filesystem::path& file,
                                  const train::RunConfig& config);

// Returns the labelled estimate for the longest utterances of the training data: memory alone.
// Throws ConfigError for a network or an effective batch without one.
Result estimate_standard(const train::RunConfig& config);

}  // namespace sotto::lab
