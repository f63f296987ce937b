#include "sotto/core/files/folder_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "sotto/core/error.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::message_of;
using test::TempFolder;

TEST(FolderLock, HasOneHolderAtATime) {
  const TempFolder temp;
  const fs::path folder = temp.path() / "run";
  {
    const FolderLock held(folder);
    const std::string message = message_of<DataError>([&] { FolderLock(temp.path() / "run/"); });
    EXPECT_PRED2(contains, message, "a run is in progress there");
    EXPECT_PRED2(contains, message, "process " + std::to_string(getpid()) + " on ");
    // Who was refused has not removed it.
    EXPECT_THROW(FolderLock{folder}, DataError);
    const FolderLock other(temp.path() / "other");
  }
  EXPECT_NO_THROW(FolderLock{folder});
}

TEST(FolderLock, LeavesNothingBehindInAFolderItCreated) {
  const TempFolder temp;
  {
    const FolderLock lock(temp.path() / "runs" / "digits");
  }
  EXPECT_FALSE(fs::exists(temp.path() / "runs"));
  {
    const FolderLock lock(temp.path() / "runs" / "digits");
    temp.write("runs/digits/config.yaml", "x");
  }
  EXPECT_TRUE(fs::exists(temp.path() / "runs/digits/config.yaml"));
  EXPECT_FALSE(fs::exists(temp.path() / "runs/digits/.lock"));
  fs::create_directories(temp.path() / "empty");
  {
    const FolderLock lock(temp.path() / "empty");
  }
  EXPECT_TRUE(fs::exists(temp.path() / "empty")) << "it was there before";
}

// The file left by a killed process is not a lock.
TEST(FolderLock, IsNotHeldByALeftoverFile) {
  const TempFolder temp;
  temp.write("run/.lock", "process 1 on elsewhere");
  EXPECT_NO_THROW(FolderLock{temp.path() / "run"});
}

TEST(FolderLock, RefusesPathThatIsNotAFolder) {
  const TempFolder temp;
  temp.write("file", "x");
  EXPECT_THROW(FolderLock{temp.path() / "file"}, DataError);
  EXPECT_THROW(FolderLock{temp.path() / "file" / "run"}, DataError);
}

}  // namespace
}  // namespace sotto
