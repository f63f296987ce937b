// Reads the folder of a run, complete, running or crashed.
#pragma once

#include <filesystem>

#include "sotto/report/run_content.h"

namespace sotto::report {

// A file that is missing or damaged is left out; a damaged one is named in `problems`. Throws
// DataError for a folder that is missing, is empty or holds no run, and for one that a newer
// version of the program wrote.
RunContent read_run(const std::filesystem::path& folder);

}  // namespace sotto::report
