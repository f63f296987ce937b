// Folders of runs that the user did not name: runs/MODEL-1, runs/MODEL-2 and so on, so that no run
// or plan lands in the folder of another.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace sotto::train {

inline constexpr const char* kRunsFolder = "runs";

// Whether a folder holds what a run writes, finished or not.
bool holds_run(const std::filesystem::path& folder);

// The folder after the highest number there is. An empty folder with the highest number is taken.
std::filesystem::path next_run_folder(const std::filesystem::path& runs, const std::string& model);

// The same for a plan, which may replace an earlier plan: the newest folder that holds nothing else
// is taken again.
std::filesystem::path next_plan_folder(const std::filesystem::path& runs, const std::string& model);

// The run with the highest number that has a checkpoint; where none has one, the one with the
// highest number; none where there is no run.
std::optional<std::filesystem::path> newest_run(const std::filesystem::path& runs,
                                                const std::string& model);

// The last part of a path or of a Hugging Face id, as the name of a run; "run" where it has none
// that a configuration can hold.
std::string run_name_from(const std::filesystem::path& path);

}  // namespace sotto::train
