#include "sotto/core/formats/event_file.h"

#include <event_message.pb.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/files/crc32c.h"
#include "support/full_disk.h"
#include "support/temp_folder.h"

namespace sotto {
namespace {

namespace fs = std::filesystem;

using test::content_of;
using test::TempFolder;

template <class Number>
Number number_at(std::string_view bytes, size_t index) {
  Number number = 0;
  std::memcpy(&number, bytes.data() + index, sizeof(Number));
  return number;
}

uint32_t checksum(std::string_view bytes) {
  return masked_crc32c(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

// The events of all whole records, up to the first that is cut short or broken.
std::vector<events::Event> read_events(std::string_view bytes) {
  constexpr size_t kHead = sizeof(uint64_t) + sizeof(uint32_t);
  std::vector<events::Event> read;
  while (bytes.size() >= kHead) {
    const auto length = number_at<uint64_t>(bytes, 0);
    EXPECT_EQ(number_at<uint32_t>(bytes, 8), checksum(bytes.substr(0, 8)));
    if (bytes.size() < kHead + length + sizeof(uint32_t)) break;
    const std::string_view message = bytes.substr(kHead, length);
    EXPECT_EQ(number_at<uint32_t>(bytes, kHead + length), checksum(message));
    EXPECT_TRUE(read.emplace_back().ParseFromString(std::string(message)));
    bytes.remove_prefix(kHead + length + sizeof(uint32_t));
  }
  return read;
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

TEST(EventFile, HoldsItsVersionThenTheScalars) {
  const TempFolder folder;
  EventFile file = EventFile::begin(folder.path(), 1);
  const std::vector<Scalar> first = {{.tag = "train/loss", .value = 2.5},
                                     {.tag = "train/rate", .value = 0.0}};
  file.add(1, first);
  file.add(2, std::vector<Scalar>{{.tag = "evaluation/wer", .value = 0.25}});

  const std::vector<events::Event> read = read_events(content_of(file.path()));
  ASSERT_EQ(read.size(), 4u);
  EXPECT_EQ(read[0].file_version(), "brain.Event:2");
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  EXPECT_NEAR(read[0].wall_time(), now, 60.0);
  EXPECT_EQ(read[1].session_log().status(), events::SessionLog::START);
  EXPECT_EQ(read[2].step(), 1);
  ASSERT_EQ(read[2].summary().value_size(), 2);
  EXPECT_EQ(read[2].summary().value(0).tag(), "train/loss");
  EXPECT_EQ(read[2].summary().value(0).simple_value(), 2.5f);
  EXPECT_EQ(read[2].summary().value(1).tag(), "train/rate");
  EXPECT_TRUE(read[2].summary().value(1).has_simple_value()) << "a zero is a number too";
  EXPECT_EQ(read[2].summary().value(1).simple_value(), 0.0f);
  EXPECT_EQ(read[3].step(), 2);
  EXPECT_EQ(read[3].summary().value(0).simple_value(), 0.25f);
}

TEST(EventFile, KeepsNonFiniteNumbers) {
  const TempFolder folder;
  EventFile file = EventFile::begin(folder.path(), 1);
  file.add(1, std::vector<Scalar>{{.tag = "a", .value = std::nan("")},
                                  {.tag = "b", .value = -std::numeric_limits<double>::infinity()}});
  const std::vector<events::Event> read = read_events(content_of(file.path()));
  EXPECT_TRUE(std::isnan(read.back().summary().value(0).simple_value()));
  EXPECT_EQ(read.back().summary().value(1).simple_value(), -std::numeric_limits<float>::infinity());
}

// A resumed run starts another file, which sorts after the first and records the step it starts
// from.
TEST(EventFile, EachSortsAfterThePrevious) {
  const TempFolder folder;
  const fs::path first = EventFile::begin(folder.path(), 1).path();
  const fs::path second = EventFile::begin(folder.path(), 31).path();
  EXPECT_EQ(files_in(folder.path()), (std::vector{first, second}));
  EXPECT_TRUE(second.filename().string().starts_with("events.out.tfevents."));
  const std::vector<events::Event> read = read_events(content_of(second));
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[1].step(), 31);
  EXPECT_EQ(read[1].session_log().status(), events::SessionLog::START);
}

// Each record is written with one call: a crash can only truncate the last one.
TEST(EventFile, TruncatedFileKeepsEarlierRecords) {
  const TempFolder folder;
  EventFile file = EventFile::begin(folder.path(), 1);
  std::vector<size_t> ends = {content_of(file.path()).size()};
  for (int64_t step = 1; step <= 3; ++step) {
    file.add(step, std::vector<Scalar>{{.tag = "x", .value = 1.0 / static_cast<double>(step)}});
    ends.push_back(content_of(file.path()).size());
  }
  const std::string whole = content_of(file.path());
  for (size_t size = ends[0]; size <= whole.size(); ++size) {
    const auto num_whole = std::ranges::upper_bound(ends, size) - ends.begin() - 1;
    EXPECT_EQ(read_events(whole.substr(0, size)).size(), 2u + static_cast<size_t>(num_whole));
  }
}

TEST(EventFile, FullDiskLosesOnlyTheRecord) {
  const TempFolder folder;
  EventFile file = EventFile::begin(folder.path(), 1);
  const std::string before = content_of(file.path());
  {
    const test::FullDisk full(before.size() + 10);
    EXPECT_THROW(file.add(1, std::vector<Scalar>{{.tag = "x", .value = 1.0}}), DataError);
  }
  EXPECT_EQ(content_of(file.path()), before);
  file.add(2, std::vector<Scalar>{{.tag = "x", .value = 2.0}});
  const std::vector<events::Event> read = read_events(content_of(file.path()));
  ASSERT_EQ(read.size(), 3u);
  EXPECT_EQ(read[2].step(), 2);
}

TEST(EventFile, RefusesMissingFolder) {
  const TempFolder folder;
  EXPECT_THROW(EventFile::begin(folder.path() / "none", 1), DataError);
}

}  // namespace
}  // namespace sotto
