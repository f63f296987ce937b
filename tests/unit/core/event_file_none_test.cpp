// Of a build without protobuf.
#include <gtest/gtest.h>

#include <filesystem>

#include "sotto/core/error.h"
#include "sotto/core/event_file.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto {
namespace {

TEST(EventFileNone, SaysWhatToInstallAndLeavesNothing) {
  const test::TempFolder folder;
  EXPECT_FALSE(has_event_messages());
  EXPECT_PRED2(test::contains,
               test::message_of<ConfigError>([&] { EventFile::begin(folder.path(), 1); }),
               "libprotobuf-dev");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace sotto
