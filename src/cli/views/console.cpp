#include "cli/views/console.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <iostream>

#include "sotto/core/error.h"

namespace sotto::cli {

void print_error(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void check_printed() {
  std::cout.flush();
  if (std::cout) return;
  throw DataError({.attempted = "printing the result",
                   .found = "standard output cannot be written to",
                   .expected = "a terminal, a pipe or a file with room for it",
                   .hint = "If it is a file, the disk may be full."});
}

void open_missing_streams() noexcept {
  // open() uses the lowest free descriptor: each is filled before the next is checked.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    if (::open("/dev/null", O_RDWR) != stream) return;  // NOLINT: child processes need it too
  }
}

void survive_broken_pipes() noexcept {
  // A handler, because ignored signals stay ignored in child processes.
  struct sigaction action{};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGPIPE, &action, nullptr);
}

}  // namespace sotto::cli
