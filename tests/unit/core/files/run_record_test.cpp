#include "sotto/core/files/run_record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "sotto/core/error.h"
#include "support/full_disk.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto {
namespace {

using test::contains;
using test::content_of;
using test::FullDisk;
using test::message_of;
using test::TempFolder;

const std::string kHeader = "{\"format_version\":1,\"kind\":\"run_record\"}\n";

static_assert(!std::is_copy_constructible_v<RunRecord>);
static_assert(std::is_nothrow_move_constructible_v<RunRecord>);

TEST(RunRecord, StartsWithItsHeaderAndGrowsByLines) {
  const TempFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  RunRecord record = RunRecord::open(file);
  EXPECT_EQ(content_of(file), kHeader);
  record.append({{"step", 1}, {"text", "a\nb"}});
  record.append({{"step", 2}});
  EXPECT_EQ(content_of(file), kHeader + "{\"step\":1,\"text\":\"a\\nb\"}\n{\"step\":2}\n");
  EXPECT_NO_THROW(record.sync());
}

TEST(RunRecord, ContinuesExistingFile) {
  const TempFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  RunRecord::open(file).append({{"step", 1}});
  RunRecord::open(file).append({{"step", 2}});
  EXPECT_EQ(content_of(file), kHeader + "{\"step\":1}\n{\"step\":2}\n");
}

TEST(RunRecord, DropsLineTruncatedByCrash) {
  const TempFolder folder;
  // Longer than one block of the backward search, and just as long.
  for (const size_t length : {1U, 20U, 4095U, 4096U, 4097U, 10000U}) {
    const auto file =
        folder.write("a.jsonl", kHeader + "{\"step\":1}\n" + "{" + std::string(length - 1, 'x'));
    RunRecord::open(file).append({{"step", 2}});
    EXPECT_EQ(content_of(file), kHeader + "{\"step\":1}\n{\"step\":2}\n") << length;
  }
}

TEST(RunRecord, DropsHeaderTruncatedByCrash) {
  const TempFolder folder;
  for (size_t length = 0; length < kHeader.size(); ++length) {
    const auto file = folder.write("a.jsonl", kHeader.substr(0, length));
    EXPECT_TRUE(read_run_record(file).has_cut_tail) << length;
    RunRecord::open(file);
    EXPECT_EQ(content_of(file), kHeader) << length;
  }
  const auto zeros = folder.write("a.jsonl", std::string(100, '\0'));
  RunRecord::open(zeros);
  EXPECT_EQ(content_of(zeros), kHeader);
}

TEST(RunRecord, LeavesUnrelatedFilesAlone) {
  const TempFolder folder;
  for (const std::string text : {"hello", "hello\n", "{\"step\":1}\n", "[1]\n", "12\nx",
                                 "{\"format_version\":1,\"kind\":\"other\"}\n",
                                 "{\"format_version\":\"1\",\"kind\":\"run_record\"}\n"}) {
    const auto file = folder.write("a.jsonl", text);
    EXPECT_THROW(RunRecord::open(file), DataError) << text;
    EXPECT_THROW(read_run_record(file), DataError) << text;
    EXPECT_EQ(content_of(file), text);
  }
}

TEST(RunRecord, RefusesNewerFormat) {
  const TempFolder folder;
  const auto file = folder.write("a.jsonl", "{\"format_version\":2,\"kind\":\"run_record\"}\n");
  const std::string message = message_of<DataError>([&] { RunRecord::open(file); });
  EXPECT_PRED2(contains, message, "its format_version is 2. Expected 1 or less. A newer sotto");
  EXPECT_THROW(read_run_record(file), DataError);
}

TEST(RunRecord, IsWrittenByOneProcessAtATime) {
  const TempFolder folder;
  const auto file = folder.path() / "a.jsonl";
  const RunRecord record = RunRecord::open(file);
  EXPECT_PRED2(contains, message_of<DataError>([&] { RunRecord::open(file); }), "another process");
}

TEST(RunRecord, CannotBeOpenedAtInvalidPath) {
  const TempFolder folder;
  EXPECT_PRED2(contains, message_of<DataError>([&] { RunRecord::open(folder.path() / "no/a"); }),
               "No such file or directory");
  EXPECT_THROW(RunRecord::open(folder.path()), DataError);
  EXPECT_THROW(RunRecord::open("/dev/full"), DataError);
}

TEST(RunRecord, FullDiskLeavesNoPartialLine) {
  const TempFolder folder;
  const auto file = folder.path() / "a.jsonl";
  RunRecord record = RunRecord::open(file);
  record.append({{"step", 1}});
  const std::string before = content_of(file);
  {
    const FullDisk full(before.size() + 5);
    const std::string message =
        message_of<DataError>([&] { record.append({{"step", 2}, {"text", "does not fit"}}); });
    EXPECT_PRED2(contains, message, "only 5 of 33 bytes of a line could be written");
    EXPECT_PRED2(contains, message, "The disk is full");
    EXPECT_EQ(content_of(file), before);
  }
  record.append({{"step", 3}});
  EXPECT_EQ(content_of(file), before + "{\"step\":3}\n");
}

TEST(RunRecord, DiskWithoutAnyRoomLeavesTheRecordUsable) {
  const TempFolder folder;
  const auto file = folder.path() / "a.jsonl";
  RunRecord record = RunRecord::open(file);
  {
    const FullDisk full(kHeader.size());
    EXPECT_THROW(record.append({{"step", 1}}), DataError);
    EXPECT_EQ(content_of(file), kHeader);
  }
  record.append({{"step", 2}});
  EXPECT_EQ(content_of(file), kHeader + "{\"step\":2}\n");
}

TEST(RunRecord, FullDiskAtTheHeaderLeavesAnEmptyFile) {
  const TempFolder folder;
  const auto file = folder.path() / "a.jsonl";
  {
    const FullDisk full(7);
    EXPECT_THROW(RunRecord::open(file), DataError);
  }
  EXPECT_EQ(content_of(file), "");
  RunRecord::open(file);
  EXPECT_EQ(content_of(file), kHeader);
}

TEST(RunRecord, IsTruncatedAtTheFirstRejectedRecord) {
  const TempFolder folder;
  const auto file = folder.path() / "a.jsonl";
  RunRecord record = RunRecord::open(file);
  for (const int step : {1, 2, 3, 4, 2, 3}) record.append({{"step", step}});
  const std::string whole = content_of(file);
  const auto until = [](int64_t last) {
    return [last](const nlohmann::json& line) { return line["step"].get<int64_t>() <= last; };
  };
  EXPECT_EQ(record.cut_back(until(4)), 0);
  EXPECT_EQ(content_of(file), whole);
  EXPECT_EQ(record.cut_back(until(2)), std::ssize(whole) - std::ssize(kHeader) - 22);
  EXPECT_EQ(content_of(file), kHeader + "{\"step\":1}\n{\"step\":2}\n");
  record.append({{"step", 3}});
  EXPECT_EQ(content_of(file), kHeader + "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
  record.cut_back(until(0));
  EXPECT_EQ(content_of(file), kHeader);
}

// Lines that cannot be read are not cut off.
TEST(RunRecord, IsNotTruncatedIfUnreadable) {
  const TempFolder folder;
  const auto file = folder.path() / "a.jsonl";
  RunRecord record = RunRecord::open(file);
  for (const int step : {1, 2, 3}) record.append({{"step", step}});
  const std::string whole = content_of(file);
  std::filesystem::rename(file, folder.path() / "b.jsonl");
  EXPECT_THROW(record.cut_back([](const nlohmann::json&) { return true; }), DataError);
  EXPECT_EQ(content_of(folder.path() / "b.jsonl"), whole);
  // Another process has put less there.
  folder.write("a.jsonl", kHeader);
  EXPECT_THROW(record.cut_back([](const nlohmann::json&) { return true; }), DataError);
  EXPECT_EQ(content_of(folder.path() / "b.jsonl"), whole);
}

TEST(RunRecord, MovesWithItsFile) {
  const TempFolder folder;
  RunRecord first = RunRecord::open(folder.path() / "a.jsonl");
  RunRecord second = std::move(first);
  second.append({{"step", 1}});
  RunRecord third = RunRecord::open(folder.path() / "b.jsonl");
  third = std::move(second);
  third.append({{"step", 2}});
  EXPECT_EQ(content_of(folder.path() / "a.jsonl"), kHeader + "{\"step\":1}\n{\"step\":2}\n");
  EXPECT_EQ(content_of(folder.path() / "b.jsonl"), kHeader);
  // The file it had before is closed, and so can be opened again.
  EXPECT_NO_THROW(RunRecord::open(folder.path() / "b.jsonl"));
  // NOLINTNEXTLINE(bugprone-use-after-move): what a moved-from record does is the question
  EXPECT_THROW(second.append({{"step", 3}}), InternalError);
}

TEST(RunRecord, KeepsNonFiniteNumbers) {
  const TempFolder folder;
  const auto file = folder.path() / "a.jsonl";
  const double infinity = std::numeric_limits<double>::infinity();
  RunRecord::open(file).append(
      {{"loss", std::nan("")}, {"norms", {1.5, infinity, -infinity}}, {"in", {{"x", infinity}}}});
  const nlohmann::json record = read_run_record(file).records.at(0);
  EXPECT_TRUE(std::isnan(record_number(record["loss"])));
  EXPECT_EQ(record_number(record["norms"][0]), 1.5);
  EXPECT_EQ(record_number(record["norms"][1]), infinity);
  EXPECT_EQ(record_number(record["norms"][2]), -infinity);
  EXPECT_EQ(record["in"]["x"], "inf");
  EXPECT_EQ(record_number(3), 3.0);
  EXPECT_THROW(record_number("three"), DataError);
  EXPECT_THROW(record_number(nullptr), DataError);
}

TEST(RunRecord, AcceptsOnlyObjectsButAnyText) {
  const TempFolder folder;
  const auto file = folder.path() / "a.jsonl";
  RunRecord record = RunRecord::open(file);
  EXPECT_THROW(record.append(nlohmann::json::array({1})), InternalError);
  record.append({{"text", "a\xFF"}});
  EXPECT_EQ(read_run_record(file).records.at(0)["text"], "a\xEF\xBF\xBD");
}

TEST(ReadRunRecord, ReturnsCompleteRecordsAndReportsATruncatedOne) {
  const TempFolder folder;
  const std::string whole = kHeader + "{\"step\":1}\n{\"step\":2}\n";
  const RunRecordContent all = read_run_record(folder.write("a.jsonl", whole));
  ASSERT_EQ(all.records.size(), 2U);
  EXPECT_EQ(all.records[1]["step"], 2);
  EXPECT_FALSE(all.has_cut_tail);
  for (const char* tail : {"{\"st", "{\"step\":3}"}) {
    const RunRecordContent cut = read_run_record(folder.write("a.jsonl", whole + tail));
    EXPECT_EQ(cut.records.size(), 2U);
    EXPECT_TRUE(cut.has_cut_tail);
  }
}

TEST(ReadRunRecord, NamesTheBrokenLine) {
  const TempFolder folder;
  for (const std::string broken : {"{\"step\":", "", "[2]", "{\"a\":1} {}"}) {
    const auto file =
        folder.write("a.jsonl", kHeader + "{\"step\":1}\n" + broken + "\n{\"step\":3}\n");
    EXPECT_PRED2(contains, message_of<DataError>([&] { read_run_record(file); }),
                 "line 3 is broken");
  }
}

TEST(ReadRunRecord, EmptyFileIsTruncatedAtItsHeader) {
  const TempFolder folder;
  const RunRecordContent content = read_run_record(folder.write("a.jsonl", ""));
  EXPECT_TRUE(content.records.empty());
  EXPECT_TRUE(content.has_cut_tail);
}

TEST(ReadRunRecord, ReportsMissingFile) {
  const TempFolder folder;
  const auto missing = folder.path() / "no.jsonl";
  EXPECT_PRED2(contains, message_of<DataError>([&] { read_run_record(missing); }), "No such file");
  EXPECT_PRED2(contains, message_of<DataError>([&] { read_run_record(folder.path()); }),
               "Is a directory");
}

}  // namespace
}  // namespace sotto
