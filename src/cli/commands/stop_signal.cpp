#include "cli/commands/stop_signal.h"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace sotto::cli {

namespace {

// Time of the first signal that asks the run to end, in milliseconds of the steady clock; 0: none.
// Signal handlers can only use globals.
std::atomic<int64_t> asked_to_end_ms = 0;

// Signals within this interval count as one: `timeout`, shells and schedulers send theirs to a
// process and to its group.
constexpr int64_t kOneSignalMs = 1000;

int64_t steady_ms() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000 + 1;
}

void on_signal(int) {
  // The first signal asks the run to save and end; a later one ends it at once.
  const int64_t now_ms = steady_ms();
  int64_t first_ms = 0;
  if (asked_to_end_ms.compare_exchange_strong(first_ms, now_ms)) return;
  if (now_ms - first_ms >= kOneSignalMs) std::_Exit(130);
}

// A closed terminal may signal several times, and no user waits for the process there.
void on_hangup(int) {
  int64_t none = 0;
  asked_to_end_ms.compare_exchange_strong(none, steady_ms());
}

}  // namespace

void listen_to_signals() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  // Under nohup it is ignored, and stays ignored.
  if (std::signal(SIGHUP, on_hangup) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

bool is_asked_to_end() {
  return asked_to_end_ms.load() != 0;
}

}  // namespace sotto::cli
