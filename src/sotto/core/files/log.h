// The program's log: one spdlog logger on standard error, so that standard output stays for results
// and --json; of a run also in a file of its folder.
#pragma once

#include <spdlog/spdlog.h>

#include <filesystem>
#include <string_view>

namespace sotto {

// Creates the logger; `verbose` shows debug lines too. Called once, by main.
void start_log(bool verbose);

// From now on the log goes to the end of this file too, with times: `title` first, and what it said
// since start_log(). Throws DataError where the file cannot be opened. A disk that is full later
// costs lines of the file and nothing else.
void keep_log(const std::filesystem::path& file, std::string_view title);

// Lines for the file alone, as they are: of what is shown by other means (tables, the error that
// ends the program).
void add_to_kept_log(std::string_view text);

}  // namespace sotto
