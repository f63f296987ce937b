// Averages the weights of several checkpoints. The average often performs better than any of them.
#pragma once

#include <filesystem>
#include <vector>

namespace sotto::train {

// Writes a checkpoint whose weights are the fp64 means of those of `checkpoints`, including the
// remainders of bf16 weights; everything else comes from the last of them. It has no moments: it
// can be evaluated, exported and used to initialise a run, but not resumed. Holds one tensor at a
// time. Throws DataError where a checkpoint is damaged, or where networks or vocabularies differ.
void average_checkpoints(const std::vector<std::filesystem::path>& checkpoints,
                         const std::filesystem::path& out);

// Returns the latest `count` checkpoints of a run, oldest first. Throws DataError where there are
// fewer.
std::vector<std::filesystem::path> newest_checkpoints(const std::filesystem::path& run_folder,
                                                      int64_t count);

// Returns the `count` checkpoints of a run with the best evaluations, oldest first. Throws
// DataError where there are fewer.
std::vector<std::filesystem::path> best_checkpoints(const std::filesystem::path& run_folder,
                                                    int64_t count);

}  // namespace sotto::train
