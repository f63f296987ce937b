#include "sotto/core/files/file_list.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sotto/core/error.h"
#include "sotto/core/files/output_file.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::content_of;
using test::message_of;
using test::TempFolder;

// A folder of three files with its list.
class FileLists : public ::testing::Test {
 protected:
  FileLists() {
    FileList list;
    list.add("weights", write_file(file("weights"), std::as_bytes(std::span(kWeights))));
    folder_.write("moments", "of the optimizer");
    folder_.write("empty", "");
    list.add_rest(folder_.path());
    list.write(folder_.path());
  }

  fs::path file(const std::string& name) const { return folder_.path() / name; }
  std::string refusal(const FileCheck& check = {}) const {
    return message_of<DataError>([&] { check_files(folder_.path(), check); });
  }

  static constexpr std::string_view kWeights = "a hundred numbers and one more";
  TempFolder folder_;
};

TEST_F(FileLists, HaveSizeAndChecksumOfEachFile) {
  check_files(folder_.path());
  check_files(folder_.path(), {.is_from_disk = true});
  const auto files = FileList::read(folder_.path()).files();
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files.at("empty"), (FileSum{0, 0xEF46DB3751D8E999}));
  EXPECT_EQ(files.at("weights").num_bytes, std::ssize(kWeights));
}

TEST_F(FileLists, DetectEveryFlippedBit) {
  for (size_t at = 0; at < kWeights.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped(kWeights);
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      folder_.write("weights", flipped);
      EXPECT_PRED2(contains, refusal(), "weights is damaged: its checksum is ");
    }
  }
  folder_.write("weights", kWeights);
  check_files(folder_.path());
}

TEST_F(FileLists, DetectShorterLongerAndMissingFiles) {
  fs::resize_file(file("weights"), 29);
  EXPECT_EQ(refusal(), "checking the files of " + folder_.path().string() +
                           ": weights is 29 bytes long. Expected 30, as it was written. Use "
                           "another checkpoint, or copy the folder again.");
  fs::resize_file(file("weights"), 31);
  EXPECT_PRED2(contains, refusal(), "weights is 31 bytes long");
  fs::remove(file("weights"));
  EXPECT_PRED2(contains, refusal(), "weights is missing. Expected a file of 30 bytes.");
  fs::create_directory(file("weights"));
  EXPECT_PRED2(contains, refusal(), "it is a folder");
}

TEST_F(FileLists, CanSkipAFile) {
  fs::remove(file("moments"));
  EXPECT_PRED2(contains, refusal(), "moments is missing");
  check_files(folder_.path(), {.left_out = "moments"});
  folder_.write("weights", "other");
  EXPECT_PRED2(contains, refusal({.left_out = "moments"}), "weights is 5 bytes long");
}

TEST_F(FileLists, AreRefusedIfBroken) {
  const std::string text = content_of(file(kFileListName));
  auto json = nlohmann::json::parse(text);
  json["format_version"] = 2;
  folder_.write(kFileListName, json.dump());
  EXPECT_PRED2(contains, refusal(), "a list of a newer format");
  json["format_version"] = 1;
  json["files"]["weights"]["xxh64"] = "no number";
  folder_.write(kFileListName, json.dump());
  EXPECT_PRED2(contains, refusal(), "the checksum 'no number'");
  json["files"] = 7;
  folder_.write(kFileListName, json.dump());
  EXPECT_PRED2(contains, refusal(), kFileListName);
  folder_.write(kFileListName, text.substr(0, text.size() / 2));
  EXPECT_PRED2(contains, refusal(), kFileListName);
  fs::remove(file(kFileListName));
  EXPECT_PRED2(contains, refusal(), "files.json is missing. Expected a list of files");
}

}  // namespace
}  // namespace sotto
