#include "sotto/core/files/atomic_folder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <set>
#include <thread>

#include "sotto/core/error.h"
#include "support/bytes.h"
#include "support/full_disk.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto {
namespace {

namespace fs = std::filesystem;
using test::bytes_of;
using test::contains;
using test::content_of;
using test::FullDisk;
using test::message_of;
using test::TempFolder;

void write(const fs::path& path, std::string_view text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

// A child process that runs `body` and is killed, or ends by itself.
class Child {
 public:
  template <class Body>
  explicit Child(Body body) {
    EXPECT_EQ(pipe(pipe_), 0);
    process_ = fork();
    if (process_ != 0) return;
    body(*this);
    _exit(0);
  }
  ~Child() {
    if (process_ > 0) kill_now();
    close(pipe_[0]);
    close(pipe_[1]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // In the child.
  void tell_parent() { EXPECT_EQ(::write(pipe_[1], "x", 1), 1); }
  // In the parent.
  void wait_for_word() {
    char word = 0;
    EXPECT_EQ(read(pipe_[0], &word, 1), 1);
  }
  pid_t process() const { return process_; }
  void kill_now() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  int pipe_[2] = {-1, -1};
  pid_t process_ = 0;
};

TEST(AtomicFolder, DoesNotExistUntilCommitted) {
  const TempFolder temp;
  const fs::path final_path = temp.path() / "step-1";
  AtomicFolder folder(final_path);
  EXPECT_EQ(folder.path(), temp.path() / (".step-1.partial-" + std::to_string(getpid())));
  write(folder.path() / "a", "one");
  write(folder.path() / "sub/b", "two");
  fs::create_symlink("a", folder.path() / "link");
  EXPECT_FALSE(fs::exists(final_path));
  folder.commit();
  EXPECT_EQ(content_of(final_path / "link"), "one");
  EXPECT_EQ(content_of(final_path / "sub/b"), "two");
  EXPECT_EQ(names_in(temp.path()), std::set<std::string>{"step-1"});
  EXPECT_THROW(folder.commit(), InternalError);
}

TEST(AtomicFolder, LeavesNothingBehindWithoutCommit) {
  const TempFolder temp;
  {
    const AtomicFolder folder(temp.path() / "step-1");
    write(folder.path() / "sub/b", "two");
  }
  EXPECT_EQ(names_in(temp.path()), std::set<std::string>{});
}

TEST(AtomicFolder, ReplacesExistingFolder) {
  const TempFolder temp;
  write(temp.path() / "best/old", "old");
  {
    AtomicFolder folder(temp.path() / "best/");
    write(folder.path() / "new", "new");
    EXPECT_EQ(names_in(temp.path() / "best"), std::set<std::string>{"old"});
    folder.commit();
  }
  EXPECT_EQ(names_in(temp.path() / "best"), std::set<std::string>{"new"});
  EXPECT_EQ(names_in(temp.path()), std::set<std::string>{"best"});
}

TEST(AtomicFolder, ReplacesLinkAndNotItsTarget) {
  const TempFolder temp;
  write(temp.path() / "step-1/a", "kept");
  fs::create_symlink("step-1", temp.path() / "best");
  AtomicFolder folder(temp.path() / "best");
  write(folder.path() / "a", "new");
  folder.commit();
  EXPECT_EQ(content_of(temp.path() / "best/a"), "new");
  EXPECT_EQ(content_of(temp.path() / "step-1/a"), "kept");
}

TEST(AtomicFolder, CreatesParentFolders) {
  const TempFolder temp;
  AtomicFolder folder(temp.path() / "runs/digits/step-1");
  folder.commit();
  EXPECT_TRUE(fs::is_directory(temp.path() / "runs/digits/step-1"));
}

TEST(AtomicFolder, FollowsLinkInParentPath) {
  const TempFolder temp;
  fs::create_directory(temp.path() / "disk");
  fs::create_symlink("disk", temp.path() / "runs");
  AtomicFolder(temp.path() / "runs/step-1").commit();
  EXPECT_TRUE(fs::is_directory(temp.path() / "disk/step-1"));
}

TEST(AtomicFolder, RefusesNameOfExistingFile) {
  const TempFolder temp;
  const fs::path file = temp.write("best", "a file");
  EXPECT_PRED2(contains, message_of<DataError>([&] { const AtomicFolder folder(file); }),
               "/best: a file with that name exists. Expected a folder or nothing. Move it");
  EXPECT_THROW(AtomicFolder(file / "below"), DataError);
  EXPECT_EQ(content_of(file), "a file");
}

TEST(AtomicFolder, HasOneWriterAtATime) {
  const TempFolder temp;
  const AtomicFolder folder(temp.path() / "best");
  write(folder.path() / "a", "mine");
  EXPECT_PRED2(contains,
               message_of<DataError>([&] { const AtomicFolder other(temp.path() / "best"); }),
               "another process is writing it");
  EXPECT_EQ(content_of(folder.path() / "a"), "mine");
}

// As in a restarted container.
TEST(AtomicFolder, StartsOverAfterCrashWithSamePid) {
  const TempFolder temp;
  const std::string leftover = ".best.partial-" + std::to_string(getpid());
  write(temp.path() / leftover / "half", "half");
  AtomicFolder folder(temp.path() / "best");
  EXPECT_TRUE(names_in(folder.path()).empty());
}

TEST(AtomicFolder, SuggestsFixWithoutWritePermission) {
  const TempFolder temp;
  fs::permissions(temp.path(), fs::perms::owner_read | fs::perms::owner_exec);
  const bool is_root = geteuid() == 0;
  // Root may write anywhere: be nobody for a moment.
  ASSERT_EQ(is_root ? seteuid(65534) : 0, 0);
  const std::string message =
      message_of<DataError>([&] { const AtomicFolder folder(temp.path() / "best"); });
  EXPECT_THROW(write_file_synced(temp.path() / "a", bytes_of("x")), DataError);
  ASSERT_EQ(is_root ? seteuid(0) : 0, 0);
  fs::permissions(temp.path(), fs::perms::owner_all);
  EXPECT_PRED2(contains, message, "Permission denied. Expected a place that this user may write");
}

TEST(AtomicFolder, FailedCommitKeepsOldFolder) {
  const TempFolder temp;
  write(temp.path() / "best/a", "old");
  {
    AtomicFolder folder(temp.path() / "best");
    fs::remove_all(folder.path());  // as somebody might who clears hidden files away
    EXPECT_PRED2(contains, message_of<DataError>([&] { folder.commit(); }),
                 "No such file or directory");
  }
  EXPECT_EQ(content_of(temp.path() / "best/a"), "old");
  EXPECT_EQ(names_in(temp.path()), std::set<std::string>{"best"});
}

TEST(AtomicFolder, FallsBackToTwoRenames) {
  const TempFolder temp;
  write(temp.path() / "best/a", "old");
  write(temp.path() / "partial/a", "new");
  detail::replace_in_two_renames(temp.path() / "partial", temp.path() / "best");
  EXPECT_EQ(content_of(temp.path() / "best/a"), "new");
  EXPECT_EQ(names_in(temp.path()), std::set<std::string>{"best"});
  // Where the second fails, the first is undone.
  EXPECT_THROW(detail::replace_in_two_renames(temp.path() / "none", temp.path() / "best"),
               DataError);
  EXPECT_EQ(content_of(temp.path() / "best/a"), "new");
  EXPECT_EQ(names_in(temp.path()), std::set<std::string>{"best"});
}

// On a file system that may not rename at once.
class WeakDisk : public ::testing::Test {
 protected:
  // Writes `best` with the text in a file; `sees` is called with what stands beside the new one
  // when it is read back.
  void replace(const std::string& text, const std::function<void()>& sees) {
    AtomicFolder folder(temp_.path() / "best", {.name = "vfat", .renames_at_once = false});
    write(folder.path() / "a", text);
    folder.commit([&](const fs::path& path) {
      EXPECT_EQ(path, temp_.path() / "best");
      EXPECT_EQ(content_of(path / "a"), text);
      sees();
    });
  }
  fs::path second_copy() const {
    return temp_.path() / (".best.replaced-" + std::to_string(getpid()));
  }

  TempFolder temp_;
};

TEST_F(WeakDisk, KeepsOldFolderUntilNewOneIsReadBack) {
  int num_read = 0;
  replace("first", [&] { ++num_read; });
  replace("second", [&] {
    ++num_read;
    EXPECT_EQ(content_of(second_copy() / "a"), "first");
  });
  EXPECT_EQ(num_read, 2);
  EXPECT_EQ(content_of(temp_.path() / "best/a"), "second");
  EXPECT_EQ(names_in(temp_.path()), std::set<std::string>{"best"});
}

TEST_F(WeakDisk, RestoresOldFolderIfNewOneIsDamaged) {
  const auto damaged = [] { throw DataError({.attempted = "reading", .found = "damage"}); };
  EXPECT_THROW(replace("first", damaged), DataError);
  EXPECT_TRUE(names_in(temp_.path()).empty());
  replace("first", [] {});
  EXPECT_THROW(replace("second", damaged), DataError);
  EXPECT_EQ(content_of(temp_.path() / "best/a"), "first");
  EXPECT_EQ(names_in(temp_.path()), std::set<std::string>{"best"});
}

TEST(AtomicFolder, IsNotReadBackIfRenameIsAtomic) {
  const TempFolder temp;
  for (const char* text : {"first", "second"}) {
    AtomicFolder folder(temp.path() / "best", FileSystem{});
    write(folder.path() / "a", text);
    folder.commit([](const fs::path&) { ADD_FAILURE() << "for nothing"; });
    EXPECT_EQ(content_of(temp.path() / "best/a"), text);
  }
}

TEST(Leftovers, AreRemovedIfTheirProcessWasKilled) {
  const TempFolder temp;
  write(temp.path() / "best/a", "old");
  Child child([&](Child& self) {
    const AtomicFolder folder(temp.path() / "best");
    write(folder.path() / "a", "half");
    self.tell_parent();
    pause();
  });
  child.wait_for_word();
  EXPECT_EQ(remove_leftovers(temp.path()), 0) << "of a living process";
  EXPECT_EQ(names_in(temp.path()).size(), 2u);
  child.kill_now();
  EXPECT_EQ(names_in(temp.path()).size(), 2u);
  EXPECT_EQ(remove_leftovers(temp.path()), 1);
  EXPECT_EQ(names_in(temp.path()), std::set<std::string>{"best"});
  EXPECT_EQ(content_of(temp.path() / "best/a"), "old");
}

TEST(Leftovers, OfThisProcessAreKept) {
  const TempFolder temp;
  const AtomicFolder folder(temp.path() / "best");
  EXPECT_EQ(remove_leftovers(temp.path()), 0);
  EXPECT_TRUE(fs::is_directory(folder.path()));
}

// The number of a process that is no more.
std::string dead_process() {
  Child child([](Child&) {});
  const std::string number = std::to_string(child.process());
  child.kill_now();
  return number;
}

TEST(Leftovers, InterruptedReplacementIsUndone) {
  const TempFolder temp;
  const std::string number = dead_process();
  write(temp.path() / (".best.replaced-" + number) / "a", "old");
  write(temp.path() / (".other.replaced-" + number) / "a", "old");
  write(temp.path() / "other/a", "new");
  EXPECT_EQ(remove_leftovers(temp.path()), 2);
  EXPECT_EQ(names_in(temp.path()), (std::set<std::string>{"best", "other"}));
  EXPECT_EQ(content_of(temp.path() / "best/a"), "old");
  EXPECT_EQ(content_of(temp.path() / "other/a"), "new");
}

// Killed during a rename that is not atomic: the new folder is incomplete.
TEST(Leftovers, PartialReplacementIsUndone) {
  const TempFolder temp;
  const std::string number = dead_process();
  for (const char* name : {"best", "other"}) {
    write(temp.path() / (std::string(".") + name + ".replaced-" + number) / "a", "old");
    write(temp.path() / name / "a", "new");
  }
  fs::remove(temp.path() / "best/a");
  const FolderCheck check = [](const fs::path& path) {
    if (!fs::exists(path / "a")) throw DataError({.attempted = "reading", .found = "half"});
  };
  EXPECT_EQ(remove_leftovers(temp.path(), check), 2);
  EXPECT_EQ(names_in(temp.path()), (std::set<std::string>{"best", "other"}));
  EXPECT_EQ(content_of(temp.path() / "best/a"), "old");
  EXPECT_EQ(content_of(temp.path() / "other/a"), "new");
}

TEST(Leftovers, UnrelatedFilesAreNotTouched) {
  const TempFolder temp;
  const std::string number = dead_process();
  const std::set<std::string> names = {"best.partial-" + number,   ".partial-" + number,
                                       ".best.partial-",           ".best.partial-" + number + "x",
                                       ".best.partial--" + number, ".best.other-" + number};
  for (const std::string& name : names) temp.write(name, "x");
  EXPECT_EQ(remove_leftovers(temp.path()), 0);
  EXPECT_EQ(names_in(temp.path()), names);
  EXPECT_EQ(remove_leftovers(temp.path() / "no"), 0);
}

// Killed at any time, the folder is either the old or the new one, complete.
TEST(AtomicFolder, IsCompleteWheneverItsWriterIsKilled) {
  const TempFolder temp;
  const fs::path final_path = temp.path() / "last";
  for (int round = 0; round < 20; ++round) {
    Child child([&](Child& self) {
      for (int64_t i = 0;; ++i) {
        AtomicFolder folder(final_path);
        for (const char* name : {"a", "b", "c"}) write(folder.path() / name, std::to_string(i));
        folder.commit();
        if (i == 0) self.tell_parent();
      }
    });
    child.wait_for_word();
    std::this_thread::sleep_for(std::chrono::microseconds(311 * round));
    child.kill_now();
    ASSERT_EQ(names_in(final_path), (std::set<std::string>{"a", "b", "c"})) << round;
    EXPECT_EQ(content_of(final_path / "a"), content_of(final_path / "c")) << round;
    EXPECT_FALSE(content_of(final_path / "b").empty()) << round;
    remove_leftovers(temp.path());
    EXPECT_EQ(names_in(temp.path()), std::set<std::string>{"last"}) << round;
  }
}

// While it is replaced repeatedly, a reader always finds one.
TEST(AtomicFolder, AlwaysExistsWhileReplaced) {
  const TempFolder temp;
  const fs::path final_path = temp.path() / "last";
  Child child([&](Child& self) {
    for (int64_t i = 0;; ++i) {
      AtomicFolder(final_path).commit();
      if (i == 0) self.tell_parent();
    }
  });
  child.wait_for_word();
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  int64_t num_missing = 0;
  while (std::chrono::steady_clock::now() < end) {
    num_missing += access(final_path.c_str(), F_OK) == 0 ? 0 : 1;
  }
  EXPECT_EQ(num_missing, 0);
}

TEST(WriteFileSynced, ReplacesTheFile) {
  const TempFolder temp;
  const fs::path path = temp.write("limits.json", "something longer");
  write_file_synced(path, bytes_of("new"));
  EXPECT_EQ(content_of(path), "new");
  write_file_synced(path, {});
  EXPECT_EQ(content_of(path), "");
  EXPECT_EQ(names_in(temp.path()), std::set<std::string>{"limits.json"});
}

TEST(WriteFileSynced, FullDiskLeavesTheFileUnchanged) {
  const TempFolder temp;
  const fs::path path = temp.write("limits.json", "old");
  const FullDisk full(5);
  EXPECT_PRED2(contains,
               message_of<DataError>([&] { write_file_synced(path, bytes_of("too long")); }),
               "File too large");
  EXPECT_EQ(content_of(path), "old");
  EXPECT_EQ(names_in(temp.path()), std::set<std::string>{"limits.json"});
}

TEST(WriteFileSynced, CannotReplaceAFolder) {
  const TempFolder temp;
  fs::create_directory(temp.path() / "a");
  EXPECT_THROW(write_file_synced(temp.path() / "a", bytes_of("x")), DataError);
  EXPECT_THROW(write_file_synced(temp.path() / "no/a", bytes_of("x")), DataError);
  EXPECT_EQ(names_in(temp.path()), std::set<std::string>{"a"});
}

// Runs as a user other than root: in a child process if we are root.
TEST(CheckWritable, RefusesUnwritableFolderButNotFullDisk) {
  const TempFolder temp;
  const fs::path folder = temp.path() / "checkpoints";
  fs::create_directories(folder);
  EXPECT_NO_THROW(check_writable(folder));
  EXPECT_TRUE(fs::is_empty(folder));
  EXPECT_THROW(check_writable(temp.path() / "none"), DataError);
  write(temp.path() / "file", "x");
  EXPECT_THROW(check_writable(temp.path() / "file"), DataError);
  fs::permissions(folder, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read |
                              fs::perms::others_exec);
  fs::permissions(temp.path(), fs::perms::all);
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (geteuid() == 0 && setuid(kNobody) != 0) _exit(2);
    try {
      check_writable(folder);
    } catch (const DataError& error) {
      const std::string text = error.what();
      const bool says_so = text.find("Permission denied") != std::string::npos &&
                           text.find("disk") == std::string::npos;
      _exit(says_so ? 0 : 3);
    }
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  fs::permissions(folder, fs::perms::owner_all);
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "another user cannot be taken here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(AtomicFile, ReplacesNeitherDevicesNorLinks) {
  const TempFolder temp;
  const fs::path pipe = temp.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_PRED2(contains, message_of<DataError>([&] { AtomicFile file(pipe); }), "a pipe");
  EXPECT_TRUE(fs::is_fifo(pipe));
  temp.write("real", "old");
  fs::create_symlink(temp.path() / "real", temp.path() / "link");
  AtomicFile file(temp.path() / "link");
  file.write(bytes_of("new"));
  file.commit();
  EXPECT_TRUE(fs::is_symlink(temp.path() / "link"));
  EXPECT_EQ(content_of(temp.path() / "real"), "new");
}

}  // namespace
}  // namespace sotto
