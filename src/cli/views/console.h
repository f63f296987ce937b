// Text for the user on standard error. A closed terminal, a full disk or a broken pipe loses the
// text and nothing else: output never ends a run.
#pragma once

#include <string_view>

namespace sotto::cli {

// Writes all of it, or as much as possible.
void print_error(std::string_view text) noexcept;

// Opens /dev/null for each of the descriptors 0 to 2 that is closed. Otherwise a file opened by the
// run would get that descriptor, and with it terminal output.
void open_missing_streams() noexcept;

// From now on writing to a broken pipe is an error of that write and does not end the process.
// Child processes are not affected.
void survive_broken_pipes() noexcept;

// Throws DataError where not everything could be written to standard output.
void check_printed();

}  // namespace sotto::cli
