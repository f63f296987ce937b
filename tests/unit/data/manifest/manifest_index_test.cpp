#include "sotto/data/manifest/manifest_index.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "sotto/core/error.h"
#include "sotto/core/hash.h"
#include "sotto/core/parallel.h"
#include "sotto/data/manifest/manifest.h"
#include "support/data_reader_checks.h"
#include "support/full_disk.h"
#include "support/mutator.h"
#include "support/reader_samples.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::data {
namespace {

using test::contains;
using test::message_of;
using test::TempFolder;

const IndexOptions kStored{.min_stored_bytes = 0};

std::string line_of(int64_t number) {
  return test::manifest_line_sample(number);
}

std::string lines_of(int64_t count) {
  std::string lines;
  for (int64_t i = 0; i < count; ++i) lines += line_of(i) + "\n";
  return lines;
}

// A cache folder of the test's own.
class ManifestIndexTest : public ::testing::Test {
 protected:
  ManifestIndexTest() { setenv("XDG_CACHE_HOME", (folder_.path() / "cache").c_str(), 1); }
  ~ManifestIndexTest() override { unsetenv("XDG_CACHE_HOME"); }

  std::filesystem::path beside() const { return folder_.path() / "data/.m.jsonl.sotto-index"; }

  TempFolder folder_;
};

// Several megabytes, so that lines cross the boundaries between the chunks of threads.
TEST_F(ManifestIndexTest, HasEveryLineOfALargeManifest) {
  constexpr int64_t kCount = 200'000;
  const std::filesystem::path path = folder_.write("data/m.jsonl", lines_of(kCount));
  ASSERT_GT(std::filesystem::file_size(path), 10u << 20);
  for (const int64_t threads : {1, 2, 5}) {
    const Manifest manifest =
        Manifest::read(path, {.num_threads = threads, .min_stored_bytes = int64_t{1} << 40});
    ASSERT_EQ(manifest.size(), kCount);
    EXPECT_FALSE(manifest.index().file().has_value());
    EXPECT_EQ(manifest.index().num_bad_lines(), 0);
    for (int64_t u = 0; u < kCount; u += u < 190'000 ? 997 : 1) {
      EXPECT_EQ(manifest.line_of(u), line_of(u));
      EXPECT_EQ(manifest.index().columns().lines[static_cast<size_t>(u)], u + 1);
    }
    EXPECT_EQ(manifest.at(12'345).text, "line 12345");
    EXPECT_EQ(manifest.at(12'345).line, 12'346);
    EXPECT_EQ(manifest.duration_s(12'345), 1.0 + 45 / 8.0);
  }
}

TEST_F(ManifestIndexTest, Takes32BytesPerUtterance) {
  const std::filesystem::path path = folder_.write("data/m.jsonl", lines_of(10'000));
  const ManifestIndex index = ManifestIndex::open(path, kStored);
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(beside()));
  EXPECT_LE(bytes, 32 * 10'000 + 1'000);
}

TEST_F(ManifestIndexTest, IsStoredNextToTheManifestAndReused) {
  const std::filesystem::path path = folder_.write("data/m.jsonl", lines_of(100));
  int64_t num_calls = 0;
  IndexOptions options = kStored;
  options.on_progress = [&](int64_t, int64_t) { ++num_calls; };
  const ManifestIndex made = ManifestIndex::open(path, options);
  EXPECT_EQ(made.file(), beside());
  EXPECT_EQ(num_calls, 1);
  const ManifestIndex found = ManifestIndex::open(path, options);
  EXPECT_EQ(num_calls, 1) << "it was made again";
  EXPECT_EQ(found.fingerprint(), made.fingerprint());
  EXPECT_EQ(found.characters(), made.characters());
  EXPECT_TRUE(std::ranges::equal(found.columns().durations_s, made.columns().durations_s));
  EXPECT_EQ(Manifest::read(path, kStored).at(99).text, "line 99");
}

TEST_F(ManifestIndexTest, IsRebuiltWhenTheManifestChanges) {
  const std::filesystem::path path = folder_.write("data/m.jsonl", lines_of(100));
  const uint64_t before = ManifestIndex::open(path, kStored).fingerprint();
  folder_.write("data/m.jsonl", lines_of(101));
  const ManifestIndex after = ManifestIndex::open(path, kStored);
  EXPECT_EQ(after.size(), 101);
  EXPECT_NE(after.fingerprint(), before);
}

TEST_F(ManifestIndexTest, OtherFileUnderItsNameIsIgnored) {
  const std::filesystem::path path = folder_.write("data/m.jsonl", lines_of(100));
  ManifestIndex::open(path, kStored);
  const std::string whole = test::content_of(beside());
  std::string broken = whole;
  broken[20] = static_cast<char>(broken[20] ^ 1);
  // A number that is none of 64 bits, in as many letters.
  std::string large = whole;
  const size_t number = large.find(R"("fingerprint":)") + 14;
  large.replace(number, 4, "1e99");
  for (size_t at = number + 4; std::isdigit(static_cast<unsigned char>(large[at])) != 0; ++at)
    large[at] = ' ';
  for (const std::string& content :
       {std::string(), std::string("x"), whole.substr(0, whole.size() - 1), broken, large}) {
    folder_.write("data/.m.jsonl.sotto-index", content);
    EXPECT_EQ(ManifestIndex::open(path, kStored).size(), 100);
    EXPECT_EQ(test::content_of(beside()), whole);
  }
}

TEST_F(ManifestIndexTest, IsInTheCacheIfTheFolderIsReadOnly) {
  const std::filesystem::path path = folder_.write("data/m.jsonl", lines_of(100));
  // A folder of the index's name: nothing can be renamed onto it, also not by root.
  std::filesystem::create_directories(beside() / "in the way");
  const ManifestIndex index = ManifestIndex::open(path, kStored);
  ASSERT_TRUE(index.file().has_value());
  EXPECT_EQ(index.file()->parent_path(), folder_.path() / "cache/sotto/manifests");
  EXPECT_EQ(ManifestIndex::open(path, kStored).size(), 100);
}

TEST_F(ManifestIndexTest, IsKeptInMemoryIfNothingIsWritable) {
  const std::filesystem::path path = folder_.write("data/m.jsonl", lines_of(100));
  const test::FullDisk full(100);
  const ManifestIndex index = ManifestIndex::open(path, kStored);
  EXPECT_EQ(index.size(), 100);
  EXPECT_FALSE(index.file().has_value());
  // Nor is anything left of the attempts.
  for (const char* name : {"data", "cache/sotto/manifests"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path() / name))
      EXPECT_EQ(entry.path().filename(), "m.jsonl");
  }
}

TEST_F(ManifestIndexTest, CanBeBuiltConcurrently) {
  const std::filesystem::path path = folder_.write("data/m.jsonl", lines_of(5'000));
  parallel_for(
      16,
      [&](int64_t) {
        const Manifest manifest = Manifest::read(path, kStored);
        EXPECT_EQ(manifest.size(), 5'000);
        EXPECT_EQ(manifest.at(4'999).text, "line 4999");
      },
      8);
}

TEST_F(ManifestIndexTest, NumbersBrokenLinesAndContinuesAfterThem) {
  std::string lines = lines_of(40'000);
  lines += "{broken\n\n" + line_of(7) + "\n" + R"({"audio_filepath": "a", "duration": 1})" + "\n";
  const Manifest manifest = Manifest::read(folder_.write("data/m.jsonl", lines));
  EXPECT_EQ(manifest.size(), 40'001);
  ASSERT_EQ(manifest.index().num_bad_lines(), 2);
  EXPECT_EQ(manifest.index().bad_lines()[0].line, 40'001);
  EXPECT_EQ(manifest.index().bad_lines()[1].line, 40'004);
  EXPECT_EQ(manifest.index().bad_lines()[1].fault.found, "no key 'text'");
  EXPECT_EQ(manifest.at(40'000).line, 40'003);
  EXPECT_PRED2(contains, message_of<DataError>([&] { manifest.refuse_bad_lines(); }),
               "m.jsonl: line 40001: not JSON: {broken");
}

TEST_F(ManifestIndexTest, KeepsReasonsOfOnlySomeBrokenLines) {
  std::string lines = lines_of(1);
  for (int i = 0; i < 5'000; ++i) lines += "x\n";
  const ManifestIndex index = ManifestIndex::open(folder_.write("data/m.jsonl", lines), kStored);
  EXPECT_EQ(index.num_bad_lines(), 5'000);
  EXPECT_EQ(index.bad_lines().size(), 1'000u);
}

TEST_F(ManifestIndexTest, TooLongLineIsRefused) {
  const std::filesystem::path path =
      folder_.write("data/m.jsonl", std::string(size_t{20} << 20, 'x'));
  EXPECT_PRED2(contains, message_of<DataError>([&] { Manifest::read(path); }),
               "a line of more than 16 MiB");
}

TEST_F(ManifestIndexTest, ChangeOfAnOpenManifestIsDetected) {
  const std::filesystem::path path = folder_.write("data/m.jsonl", lines_of(100));
  const Manifest manifest = Manifest::read(path);
  std::string other = lines_of(100);
  other[other.find("line 50")] = 'L';
  std::ofstream(path, std::ios::binary) << other;
  EXPECT_EQ(manifest.at(49).text, "line 49");
  EXPECT_PRED2(contains, message_of<DataError>([&] { manifest.at(50); }),
               "line 51 has changed since the manifest was opened");
  std::filesystem::resize_file(path, 200);
  EXPECT_PRED2(contains, message_of<DataError>([&] { manifest.at(99); }), "line 100 has changed");
}

// Only the header has a checksum.
TEST_F(ManifestIndexTest, StoredIndexWithWrongOffsetsIsDetected) {
  constexpr size_t kHeaderBytes = 56;
  const std::filesystem::path path = folder_.write("data/m.jsonl", line_of(1) + "\n");
  ManifestIndex::open(path, kStored);
  const std::string whole = test::content_of(beside());
  const auto message_with = [&](uint64_t offset, uint32_t num_bytes, uint32_t hash) {
    std::string bytes = whole;
    bytes.replace(kHeaderBytes, 16,
                  test::bytes_of_number(offset) + test::bytes_of_number(num_bytes) +
                      test::bytes_of_number(hash));
    folder_.write("data/.m.jsonl.sotto-index", bytes);
    return message_of<DataError>([&] { Manifest::read(path, kStored).at(0); });
  };
  const auto most_bytes_so_far = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return int64_t{usage.ru_maxrss} << 10;
  };
  const int64_t before = most_bytes_so_far();
  const std::string expected = "line 1 has changed since the manifest was opened";
  EXPECT_PRED2(contains, message_with(0, 1U << 30, 0), expected);
  EXPECT_LT(most_bytes_so_far() - before, int64_t{1} << 29);
  EXPECT_PRED2(contains, message_with(~uint64_t{0}, 1, 0), expected);
  // Bytes that are there and have this hash, and yet are no utterance.
  EXPECT_PRED2(contains, message_with(0, 0, static_cast<uint32_t>(hash_bytes(""))), expected);
}

// 2^59 utterances of 32 bytes each are 2^64 bytes, which overflows to 0: the size of this file.
TEST_F(ManifestIndexTest, CraftedIndexThatOverflowsIsIgnored) {
  constexpr size_t kHeaderBytes = 56, kCountAt = 32, kChecksumAt = 48;
  const std::filesystem::path path = folder_.write("data/m.jsonl", line_of(1) + "\n");
  ManifestIndex::open(path, kStored);
  const std::string whole = test::content_of(beside());
  std::string crafted = whole.substr(0, kHeaderBytes) + whole.substr(kHeaderBytes + 32);
  crafted.replace(kCountAt, 8, test::bytes_of_number(uint64_t{1} << 59));
  crafted.replace(
      kChecksumAt, 8,
      test::bytes_of_number(hash_bytes(std::string_view(crafted).substr(0, kChecksumAt))));
  folder_.write("data/.m.jsonl.sotto-index", crafted);
  EXPECT_EQ(ManifestIndex::open(path, kStored).size(), 1);
  EXPECT_EQ(test::content_of(beside()), whole);
}

TEST_F(ManifestIndexTest, BrokenBytesNeverCrashIt) {
  const std::string good = test::manifest_sample();
  test::run_rounds(
      [&](test::Mutator& mutator) {
        std::filesystem::remove(folder_.path() / "m.jsonl");
        test::check_manifest(Manifest::read(folder_.write("m.jsonl", mutator.mutate(good))));
      },
      "m.jsonl");
}

}  // namespace
}  // namespace sotto::data
