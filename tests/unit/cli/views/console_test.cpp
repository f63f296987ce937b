#include "cli/views/console.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

namespace sotto::cli {
namespace {

// The exit code of a child that runs `body` with these descriptors closed; minus the signal that
// ended it.
int in_child(const std::vector<int>& closed, const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int descriptor : closed) ::close(descriptor);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(Console, MissingStreamsAreOpened) {
  for (const std::vector<int>& closed :
       std::vector<std::vector<int>>{{}, {0}, {1}, {2}, {1, 2}, {0, 2}, {0, 1, 2}}) {
    EXPECT_EQ(in_child(closed,
                       [] {
                         open_missing_streams();
                         const int next = ::open("/dev/null", O_RDONLY);
                         print_error("");
                         return next > 2 ? 0 : 1;
                       }),
              0);
  }
}

TEST(Console, UnwritableTextIsDropped) {
  const auto print = [] {
    print_error("some text\n");
    return 0;
  };
  EXPECT_EQ(in_child({2}, print), 0);
  EXPECT_EQ(in_child({},
                     [&] {
                       dup2(::open("/dev/full", O_WRONLY), STDERR_FILENO);
                       return print();
                     }),
            0);
  const auto into_a_broken_pipe = [&] {
    int ends[2] = {-1, -1};
    if (pipe(ends) != 0) return 1;
    ::close(ends[0]);
    dup2(ends[1], STDERR_FILENO);
    return print();
  };
  EXPECT_EQ(in_child({}, into_a_broken_pipe), -SIGPIPE);
  EXPECT_EQ(in_child({},
                     [&] {
                       survive_broken_pipes();
                       return into_a_broken_pipe();
                     }),
            0);
}

}  // namespace
}  // namespace sotto::cli
