// The mean of the weights of several checkpoints, which is often better than any of them alone.
#pragma once

#include <filesystem>
#include <vector>

namespace sotto::train {

// Writes a checkpoint whose weights are the means, taken in fp64, of those of `checkpoints`, with
// what bf16 leaves out counted in; all else is that of the last of them. It has no moments: one
// can evaluate, export and begin with it, but not go on from it. Holds one tensor at a time. Throws
// DataError where a checkpoint is damaged, or they are not of one network and vocabulary.
void average_checkpoints(const std::vector<std::filesystem::path>& checkpoints,
                         const std::filesystem::path& out);

// The newest `count` checkpoints of a run, the newest last. Throws DataError where there are fewer.
std::vector<std::filesystem::path> newest_checkpoints(const std::filesystem::path& run_folder,
                                                      int64_t count);

}  // namespace sotto::train
