#include "cli/commands/process_limits.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string_view>

#include "sotto/core/error.h"
#include "sotto/core/units.h"

namespace sotto::cli {

namespace {

constexpr rlim_t kUsualStackBytes = rlim_t{8} << 20;

// The system checks the limit whenever the stack grows: it can still be raised at this point.
rlim_t raise_stack_limit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return kUsualStackBytes;
  if (limit.rlim_cur >= kUsualStackBytes) return limit.rlim_cur;
  rlimit raised = limit;
  raised.rlim_cur = std::min(kUsualStackBytes, limit.rlim_max);
  return setrlimit(RLIMIT_STACK, &raised) == 0 ? raised.rlim_cur : limit.rlim_cur;
}

// Sets the stack size of threads created from now on; by default it would be the limit with which
// the process started.
void set_thread_stacks(rlim_t bytes) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return;
  if (pthread_attr_setstacksize(&attributes, bytes) == 0) pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
}

// Only files that are read once are mapped; files read repeatedly during a run are not.
void on_bus_error(int) {
  constexpr std::string_view kMessage =
      "sotto: reading a mapped file: it was truncated while in use, or its disk cannot be read. "
      "Expected weight and index files that do not change. Try again.\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage.data(), kMessage.size());
  _exit(2);
}

}  // namespace

void prepare_process() {
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGBUS, on_bus_error);
  const rlim_t stack = raise_stack_limit();
  if (stack < static_cast<rlim_t>(kLeastStackBytes)) {
    throw ConfigError({.attempted = "starting",
                       .found = fmt::format("the stack is limited to {}",
                                            format_bytes(static_cast<int64_t>(stack))),
                       .expected = fmt::format("at least {}", format_bytes(kLeastStackBytes)),
                       .hint = "Type: ulimit -s 8192"});
  }
  set_thread_stacks(std::min(stack, kUsualStackBytes));
}

}  // namespace sotto::cli
