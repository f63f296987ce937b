#include "sotto/core/files/file_system.h"

#include <gtest/gtest.h>

#include "support/temp_folder.h"

namespace sotto {
namespace {

TEST(FileSystem, IsIdentifiedByMagicNumber) {
  for (const auto& [magic, name] : {std::pair<int64_t, const char*>{0x4d44, "vfat"},
                                    {0x65735546, "FUSE"},
                                    {0x01021997, "9p"},
                                    {0xff534d42, "cifs"},
                                    {static_cast<int32_t>(0xff534d42), "cifs"}}) {
    const FileSystem weak = file_system_of(magic);
    EXPECT_EQ(weak.name, name);
    EXPECT_FALSE(weak.renames_at_once) << name;
  }
  constexpr int64_t kExt4 = 0xef53, kTmpfs = 0x01021994, kXfs = 0x58465342;
  for (const int64_t magic : {kExt4, kTmpfs, kXfs})
    EXPECT_TRUE(file_system_of(magic).renames_at_once) << magic;
}

TEST(FileSystem, IsThatOfTheNearestExistingFolder) {
  const test::TempFolder folder;
  EXPECT_EQ(file_system_at(folder.path() / "not/there/yet").name,
            file_system_at(folder.path()).name);
  EXPECT_TRUE(file_system_at("/proc/1").renames_at_once);
}

}  // namespace
}  // namespace sotto
