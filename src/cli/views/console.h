// Text for the user on standard error. A terminal that was closed, a full disk or a broken pipe
// behind it costs the text and nothing else: output never ends a run.
#pragma once

#include <string_view>

namespace sotto::cli {

// Writes all of it, or as much as can be written.
void print_error(std::string_view text) noexcept;

// Opens /dev/null for each of the descriptors 0 to 2 that is closed. A file that a run opens would
// otherwise get its number, and what is meant for the terminal.
void open_missing_streams() noexcept;

// From now on writing to a pipe that nobody reads is an error of that write and does not end the
// process. Programs that are started from here are not affected.
void survive_broken_pipes() noexcept;

// Throws DataError where standard output did not take all that was printed.
void check_printed();

}  // namespace sotto::cli
