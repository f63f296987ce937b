// Handles limits that the shell sets for a process (ulimit) before they end it by a signal.
#pragma once

#include <cstdint>

namespace sotto::cli {

// Minimum stack size: libraries keep tiles of matrices on the stack, in every thread.
inline constexpr int64_t kLeastStackBytes = int64_t{2} << 20;

// Sets up the process so that a write beyond `ulimit -f` fails with an error; that a mapped file
// (weights, an index) that is truncated during use or unreadable on disk ends the program with a
// message and exit code 2; and that threads have stacks as large as the main one, which is raised
// to 8 MiB where allowed. Throws ConfigError where it cannot be raised to kLeastStackBytes.
void prepare_process();

}  // namespace sotto::cli
