// Removing a folder under a hidden name.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <set>
#include <string>

#include "sotto/core/files/atomic_folder.h"
#include "support/temp_folder.h"

namespace sotto {
namespace {

namespace fs = std::filesystem;
using test::TempFolder;

std::set<std::string> names_in_folder(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

// Kills a process while it removes a folder: the folder is never incomplete under its name.
TEST(RemoveFolder, IsCompleteOrHiddenAfterAKill) {
  constexpr int kNumFiles = 1'500;
  int num_killed = 0;
  for (int attempt = 0; attempt < 20 && num_killed < 3; ++attempt) {
    const TempFolder temp;
    const fs::path folder = temp.path() / "step-2";
    fs::create_directory(folder);
    for (int i = 0; i < kNumFiles; ++i) temp.write("step-2/" + std::to_string(i), "");
    const auto num_names = [&] {
      std::error_code ignored;
      return std::distance(fs::directory_iterator(folder, ignored), fs::directory_iterator());
    };
    const pid_t child = fork();
    if (child == 0) {
      remove_folder(folder);
      _exit(0);
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (num_names() == kNumFiles && std::chrono::steady_clock::now() < deadline) {
    }
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    EXPECT_FALSE(fs::exists(folder));
    if (names_in_folder(temp.path()).empty()) continue;  // it was faster
    ++num_killed;
    EXPECT_EQ(remove_leftovers(temp.path()), 1);
    EXPECT_TRUE(fs::is_empty(temp.path()));
  }
  EXPECT_GE(num_killed, 1);
}

TEST(RemoveFolder, RemovesOnlyTheNamedFolder) {
  const TempFolder temp;
  fs::create_directory(temp.path() / "a");
  temp.write("a/b", "x");
  remove_folder(temp.path() / "none");
  EXPECT_EQ(names_in_folder(temp.path()), std::set<std::string>{"a"});
  remove_folder(temp.path() / "a/");
  EXPECT_TRUE(fs::is_empty(temp.path()));
}

}  // namespace
}  // namespace sotto
