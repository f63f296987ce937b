// The program's log: one spdlog logger on standard error, so that standard output stays for results
// and --json.
#pragma once

#include <spdlog/spdlog.h>

namespace sotto {

// Creates the logger; `verbose` shows debug lines too. Called once, by main.
void start_log(bool verbose);

}  // namespace sotto
