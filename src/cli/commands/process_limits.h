// Limits that the shell sets for a process (ulimit), met before they end it by a signal.
#pragma once

#include <cstdint>

namespace sotto::cli {

// Libraries keep tiles of matrices on the stack, in every thread.
inline constexpr int64_t kLeastStackBytes = int64_t{2} << 20;

// A write beyond `ulimit -f` then is an error of that write; a mapped file (weights, an index) that
// is cut while it is used or that the disk cannot read ends the program with a message and exit
// code 2; and threads have stacks as large as the main one, which grows to 8 MiB where it may.
// Throws ConfigError where it may not grow to kLeastStackBytes.
void prepare_process();

}  // namespace sotto::cli
