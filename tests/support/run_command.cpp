#include "support/run_command.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>

namespace sotto::test {

namespace {

void check(int code, const std::string& what) {
  if (code != 0) throw std::system_error(code, std::generic_category(), what);
}

// What a child writes into one end of, and we read from the other.
struct Pipe {
  Pipe() { check(pipe2(ends.data(), O_CLOEXEC) == 0 ? 0 : errno, "pipe2"); }
  // A terminal of so many columns.
  explicit Pipe(int columns) {
    ends[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    check(grantpt(ends[0]) == 0 && unlockpt(ends[0]) == 0 ? 0 : errno, "making a terminal");
    ends[1] = open(ptsname(ends[0]), O_RDWR | O_NOCTTY | O_CLOEXEC);
    const winsize size = {.ws_row = 24,
                          .ws_col = static_cast<unsigned short>(columns),
                          .ws_xpixel = 0,
                          .ws_ypixel = 0};
    check(ioctl(ends[1], TIOCSWINSZ, &size) == 0 ? 0 : errno, "sizing a terminal");
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_writer();
    close(ends[0]);
  }
  void close_writer() {
    if (ends[1] >= 0) close(ends[1]);
    ends[1] = -1;
  }

  std::array<int, 2> ends = {-1, -1};
};

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

// A name that is given again replaces the inherited one.
std::vector<std::string> with_environment(const std::vector<std::string>& added) {
  std::vector<std::string> all = added;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('=') + 1);
    bool replaced = false;
    for (const std::string& other : added) replaced = replaced || other.starts_with(name);
    if (!replaced) all.emplace_back(text);
  }
  return all;
}

pid_t start(std::vector<std::string> words, const std::vector<std::string>& environment,
            const Pipe& out, const Pipe& err) {
  std::vector<std::string> variables = with_environment(environment);
  posix_spawn_file_actions_t actions;
  check(posix_spawn_file_actions_init(&actions), "preparing the child");
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, err.ends[1], 2);
  pid_t child = 0;
  const int code = posix_spawnp(&child, words.front().c_str(), &actions, nullptr,
                                pointers(words).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  check(code, "starting " + words.front());
  return child;
}

// Both at once: a child that fills one pipe while we wait for the other would never end.
void read_both(const Pipe& out, const Pipe& err, CommandResult& result) {
  std::array<pollfd, 2> polled = {pollfd{out.ends[0], POLLIN, 0}, pollfd{err.ends[0], POLLIN, 0}};
  const std::array<std::string*, 2> texts = {&result.out, &result.err};
  std::array<char, 4096> part = {};
  while (polled[0].fd >= 0 || polled[1].fd >= 0) {
    if (poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) check(errno, "poll");
    for (size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].fd < 0 || polled[i].revents == 0) continue;
      const ssize_t count = read(polled[i].fd, part.data(), part.size());
      if (count > 0) texts[i]->append(part.data(), static_cast<size_t>(count));
      if (count == 0 || (count < 0 && errno != EINTR)) polled[i].fd = -1;
    }
  }
}

std::vector<std::string> sotto_words(const std::vector<std::string>& arguments) {
  const char* binary = std::getenv("SOTTO_BINARY");
  if (binary == nullptr) throw std::runtime_error("SOTTO_BINARY is not set: run this by ctest");
  std::vector<std::string> words = {binary};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

CommandResult run_into(Pipe& out, Pipe& err, const std::vector<std::string>& words,
                       const std::vector<std::string>& environment) {
  const pid_t child = start(words, environment, out, err);
  out.close_writer();
  err.close_writer();
  CommandResult result;
  read_both(out, err, result);
  int status = 0;
  rusage usage{};
  while (wait4(child, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  result.peak_bytes = int64_t{usage.ru_maxrss} << 10;
  return result;
}

void send_second(pid_t child, const SecondSignal& second) {
  if (second.pause.count() > 0) {
    // The first has to be dealt with before.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    kill(child, SIGSTOP);
    std::this_thread::sleep_for(second.pause);
  }
  kill(child, second.signal);
  kill(child, SIGCONT);
}

}  // namespace

CommandResult run_command(const std::vector<std::string>& words,
                          const std::vector<std::string>& environment) {
  Pipe out;
  Pipe err;
  return run_into(out, err, words, environment);
}

CommandResult run_sotto_on_terminal(const std::vector<std::string>& arguments, int columns) {
  Pipe out;
  Pipe err(columns);
  return run_into(out, err, sotto_words(arguments), {});
}

int run_sotto_on_closed_terminal(const std::vector<std::string>& arguments) {
  Pipe out;
  pid_t child = 0;
  {
    Pipe err(80);
    child = start(sotto_words(arguments), {}, out, err);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

CommandResult run_sotto_in_shell(const std::vector<std::string>& arguments,
                                 const std::string& redirections) {
  std::vector<std::string> words = {"/bin/sh", "-c", "\"$0\" \"$@\" " + redirections};
  for (const std::string& word : sotto_words(arguments)) words.push_back(word);
  return run_command(words);
}

CommandResult run_sotto(const std::vector<std::string>& arguments,
                        const std::vector<std::string>& environment) {
  return run_command(sotto_words(arguments), environment);
}

int run_sotto_and_signal(const std::vector<std::string>& arguments, int signal,
                         const std::function<bool()>& is_time,
                         const std::optional<SecondSignal>& second) {
  std::vector<std::string> words = sotto_words(arguments);
  std::vector<std::string> variables = with_environment({});
  posix_spawn_file_actions_t actions;
  check(posix_spawn_file_actions_init(&actions), "preparing the child");
  for (const int stream : {0, 1, 2})
    posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", O_RDWR, 0);
  pid_t child = 0;
  const int code = posix_spawnp(&child, words.front().c_str(), &actions, nullptr,
                                pointers(words).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  check(code, "starting " + words.front());
  int status = 0;
  bool is_sent = false;
  while (waitpid(child, &status, is_sent ? 0 : WNOHANG) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (!is_time()) continue;
    kill(child, signal);
    if (second) send_second(child, *second);
    is_sent = true;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace sotto::test
