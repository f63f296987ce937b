// Folders of runs that the user did not name: runs/MODEL-1, runs/MODEL-2 and so on, so that no run
// or plan overwrites another.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace sotto::train {

inline constexpr const char* kRunsFolder = "runs";

// Whether a folder contains files of a run, finished or not.
bool holds_run(const std::filesystem::path& folder);

// Returns the folder after the highest existing number. An empty folder with the highest number is
// reused.
std::filesystem::path next_run_folder(const std::filesystem::path& runs, const std::string& model);

// Returns the folder for a plan, which may replace an earlier plan: the latest folder is reused
// where it contains nothing but a plan.
std::filesystem::path next_plan_folder(const std::filesystem::path& runs, const std::string& model);

// Returns the run with the highest number that has a checkpoint; where none has one, the run with
// the highest number; none where there is no run.
std::optional<std::filesystem::path> newest_run(const std::filesystem::path& runs,
                                                const std::string& model);

// Returns the last component of a path or Hugging Face id as the name of a run; "run" where that is
// not valid in a configuration.
std::string run_name_from(const std::filesystem::path& path);

}  // namespace sotto::train
