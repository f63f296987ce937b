// Signals that ask a long command to save and end: SIGINT, SIGTERM and SIGHUP.
#pragma once

namespace sotto::cli {

// From now on the first signal only asks; a later SIGINT or SIGTERM ends the process at once.
void listen_to_signals();

bool is_asked_to_end();

}  // namespace sotto::cli
