#include "sotto/core/files/log.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "sotto/core/error.h"
#include "support/full_disk.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto {
namespace {

using test::contains;
using test::content_of;

// The logger is the process's: each test puts back the one that was there.
class Log : public ::testing::Test {
 protected:
  ~Log() override { spdlog::set_default_logger(before_); }

  std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  test::TempFolder folder_;
  std::filesystem::path file_ = folder_.path() / "log.txt";
};

TEST_F(Log, IncludesLinesFromBeforeTheFile) {
  start_log(/*verbose=*/false);
  spdlog::warn("said before there was a folder");
  spdlog::debug("not said");
  keep_log(file_, "title\n");
  spdlog::info("said later");
  add_to_kept_log("a table\n");
  const std::string kept = content_of(file_);
  EXPECT_TRUE(kept.starts_with("title\n2")) << kept;
  EXPECT_PRED2(contains, kept, " warning: said before there was a folder\n");
  EXPECT_PRED2(contains, kept, " info: said later\na table\n");
  EXPECT_FALSE(contains(kept, "not said"));
}

TEST_F(Log, AppendsToAnExistingFile) {
  for (const char* text : {"the first process", "the second process"}) {
    start_log(/*verbose=*/true);
    keep_log(file_, "");
    spdlog::debug("{}", text);
  }
  const std::string kept = content_of(file_);
  EXPECT_PRED2(contains, kept, "debug: the first process\n");
  EXPECT_TRUE(kept.ends_with("debug: the second process\n")) << kept;
}

TEST_F(Log, FullDiskLosesOnlyLines) {
  start_log(/*verbose=*/false);
  keep_log(file_, "title\n");
  {
    const test::FullDisk full(6);
    spdlog::info("does not fit");
  }
  spdlog::info("fits");
  EXPECT_TRUE(content_of(file_).ends_with("info: fits\n"));
}

TEST_F(Log, RefusesInvalidPath) {
  start_log(/*verbose=*/false);
  EXPECT_THROW(keep_log(folder_.path() / "none" / "log.txt", ""), DataError);
}

// As a library in another program, whose log is not ours.
TEST_F(Log, IsNotKeptUnlessStarted) {
  keep_log(file_, "title\n");
  add_to_kept_log("text\n");
  EXPECT_FALSE(std::filesystem::exists(file_));
}

}  // namespace
}  // namespace sotto
