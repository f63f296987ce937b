#include "sotto/core/files/output_file.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "sotto/core/error.h"
#include "support/bytes.h"
#include "support/full_disk.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto {
namespace {

using test::bytes_of;
using test::contains;
using test::content_of;
using test::FullDisk;
using test::message_of;
using test::TempFolder;

TEST(OutputFile, HoldsOnlyWhatWasWritten) {
  const TempFolder folder;
  const auto path = folder.write("a", "something longer that was there");
  OutputFile file = OutputFile::create(path);
  file.write(bytes_of("one "));
  OutputFile moved = std::move(file);
  moved.write({});
  moved.write(bytes_of("two"));
  moved.sync();
  moved.close();
  EXPECT_EQ(content_of(path), "one two");
  EXPECT_THROW(moved.write(bytes_of("three")), InternalError);
}

TEST(OutputFile, ComputesTheChecksumOfWhatWasWritten) {
  const TempFolder folder;
  // More than is hashed at a time.
  std::string text(size_t{3} << 20, 'a');
  for (size_t i = 0; i < text.size(); i += 1000) text[i] = static_cast<char>('a' + i % 23);
  Checksum expected;
  expected.add(bytes_of(text));
  OutputFile file = OutputFile::create(folder.path() / "a");
  file.write(bytes_of(text).first(1'500'000));
  file.write(bytes_of(text).subspan(1'500'000));
  file.close();
  EXPECT_EQ(file.sum(), expected.sum());
  EXPECT_EQ(content_of(folder.path() / "a"), text);
  EXPECT_EQ(write_file(folder.path() / "a", bytes_of(text)), expected.sum());
}

TEST(OutputFile, SuggestsFixWhenTheDiskIsFull) {
  OutputFile file = OutputFile::create("/dev/full");
  EXPECT_EQ(
      message_of<DataError>([&] { file.write(bytes_of("x")); }),
      "writing /dev/full: No space left on device. Expected free space on that disk. Free some "
      "space, or name a folder on another disk with --out.");
}

TEST(OutputFile, SuggestsFixWhenFileSizeIsLimited) {
  const TempFolder folder;
  OutputFile file = OutputFile::create(folder.path() / "a");
  const FullDisk full(3);
  const std::string message = message_of<DataError>([&] { file.write(bytes_of("four")); });
  EXPECT_PRED2(contains, message, "File too large. Expected a file of that size to be allowed.");
}

TEST(OutputFile, CannotBeCreatedAtInvalidPath) {
  const TempFolder folder;
  EXPECT_PRED2(contains, message_of<DataError>([&] { OutputFile::create(folder.path() / "no/a"); }),
               "/no/a: No such file or directory.");
  EXPECT_PRED2(contains, message_of<DataError>([&] { OutputFile::create(folder.path()); }),
               "Is a directory.");
}

TEST(OutputFile, PermissionErrorsSuggestFix) {
  for (const int code : {EROFS, EACCES, EPERM}) {
    const std::string message = message_of<DataError>([&] {
      errno = code;
      throw_file_error("creating", "runs/a");
    });
    EXPECT_PRED2(contains, message, "creating runs/a: ");
    EXPECT_PRED2(contains, message, "Expected a place that this user may write to. Change its");
  }
}

}  // namespace
}  // namespace sotto
