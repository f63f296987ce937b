#include "sotto/data/import/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "sotto/core/error.h"

namespace sotto::data {

namespace {

constexpr int kTickMs = 200;

// Reads until the other end is closed.
std::string read_all(int descriptor, const std::function<void()>& tick) {
  std::string output;
  std::array<char, 4096> buffer{};
  while (true) {
    pollfd waiting{.fd = descriptor, .events = POLLIN, .revents = 0};
    const int ready = poll(&waiting, 1, kTickMs);
    if (tick) tick();
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const ssize_t count = read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return output;
    output.append(buffer.data(), static_cast<size_t>(count));
  }
}

}  // namespace

ProgramResult run_program(const std::vector<std::string>& words,
                          const std::function<void()>& tick) {
  std::vector<char*> arguments;
  for (const std::string& word : words)
    arguments.push_back(const_cast<char*>(word.c_str()));  // NOLINT: posix_spawn does not write
  arguments.push_back(nullptr);
  std::array<int, 2> ends{};
  SOTTO_ASSERT(pipe2(ends.data(), O_CLOEXEC) == 0, "pipe2 failed: error {}", errno);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, arguments.front(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  ProgramResult result{.has_started = error == 0};
  if (result.has_started) {
    result.output = read_all(ends[0], tick);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    result.exit_code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }
  close(ends[0]);
  return result;
}

}  // namespace sotto::data
