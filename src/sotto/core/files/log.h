// The program's log: one spdlog logger on standard error, so that standard output is reserved for
// results and --json; during a run also a file in its folder.
#pragma once

#include <spdlog/spdlog.h>

#include <filesystem>
#include <string_view>

namespace sotto {

// Creates the logger; `verbose` enables debug lines. Called once, by main.
void start_log(bool verbose);

// Appends the log to this file from now on, with timestamps: first `title` and everything logged
// since start_log(). Throws DataError where the file cannot be opened. If the disk is full later,
// only lines of the file are lost.
void keep_log(const std::filesystem::path& file, std::string_view title);

// Writes lines unchanged to the file only: used for output that is shown by other means (tables,
// the error that ends the program).
void add_to_kept_log(std::string_view text);

}  // namespace sotto
