// Runs of `sotto train` that are killed at chosen moments and taken up again.
#pragma once

#include <csignal>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "support/train_runs.h"

namespace sotto::test {

// Whether a checkpoint is being written at this moment, or was when its process was killed.
inline bool has_partial_checkpoint(const std::filesystem::path& run_folder) {
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator(run_folder / "checkpoints", ignored)) {
    if (entry.path().filename().string().starts_with(".step-")) return true;
  }
  return false;
}

class KilledRuns : public TrainRuns {
 protected:
  // Resumes the run and kills it while it writes a checkpoint, beyond so many lines of its record.
  // Returns whether it was: a run that is at its end is not, nor one that was faster than we.
  bool kill_in_a_save(const std::string& out, const std::vector<std::string>& more,
                      int64_t num_lines_before) const {
    // What the last one left behind is there until the run has begun.
    const int code = run_sotto_and_signal(words(out, more), SIGKILL, [&] {
      return num_lines(out) > num_lines_before && has_partial_checkpoint(run(out));
    });
    EXPECT_TRUE(code == -SIGKILL || code == 0) << code;
    return code == -SIGKILL && has_partial_checkpoint(run(out));
  }
};

}  // namespace sotto::test
