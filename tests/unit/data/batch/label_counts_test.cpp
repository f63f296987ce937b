#include "sotto/data/batch/label_counts.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

#include "sotto/data/batch/dataset.h"
#include "support/run_command.h"
#include "support/temp_folder.h"

namespace sotto::data {
namespace {

const LabelCounts kCounts{.num_labels = {3, 0, 70'000, 12}, .has_fault = {0, 1, 0, 1}};

TEST(LabelCounts, AreReadBack) {
  const test::TempFolder folder;
  const std::filesystem::path path = folder.path() / "new" / "a.counts";
  EXPECT_FALSE(read_label_counts(path, 4));
  write_label_counts(path, kCounts);
  const std::optional<LabelCounts> read = read_label_counts(path, 4);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->num_labels, kCounts.num_labels);
  EXPECT_EQ(read->has_fault, kCounts.has_fault);
  // Nothing else is left there.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path.parent_path()), {}), 1);
}

TEST(LabelCounts, DamagedOrForeignFilesAreNotUsed) {
  const test::TempFolder folder;
  const std::filesystem::path path = folder.path() / "a.counts";
  write_label_counts(path, kCounts);
  EXPECT_FALSE(read_label_counts(path, 3));
  const std::string whole = test::content_of(path);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string broken = whole;
    broken[at] ^= 1;
    folder.write("a.counts", broken);
    EXPECT_FALSE(read_label_counts(path, 4)) << at;
  }
  folder.write("a.counts", whole.substr(0, whole.size() - 1));
  EXPECT_FALSE(read_label_counts(path, 4));
}

TEST(LabelCounts, AFolderThatCannotBeWrittenIsNoError) {
  const test::TempFolder folder;
  folder.write("file", "");
  EXPECT_NO_THROW(write_label_counts(folder.path() / "file" / "a.counts", kCounts));
  // Nothing is left where it cannot get its name: a folder is in its place.
  folder.write("place/a.counts/within", "");
  EXPECT_NO_THROW(write_label_counts(folder.path() / "place" / "a.counts", kCounts));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path() / "place"), {}), 1);
}

TEST(LabelCounts, BelongToAManifestAndATokenizer) {
  EXPECT_NE(label_counts_path(1, 2), label_counts_path(1, 3));
  EXPECT_NE(label_counts_path(1, 2), label_counts_path(2, 2));
}

// Sizes of the utterances of a manifest that is long enough.
class LabelCountsOfDatasets : public testing::Test {
 protected:
  LabelCountsOfDatasets() { setenv("XDG_CACHE_HOME", (folder_.path() / "cache").c_str(), 1); }
  ~LabelCountsOfDatasets() override { unsetenv("XDG_CACHE_HOME"); }

  Manifest manifest(const std::string& first_text) const {
    std::string lines;
    for (int64_t line = 0; line < kLeastStoredLines; ++line)
      lines += R"({"audio_filepath": "x", "duration": 1, "text": ")" +
               (line == 0 ? first_text : "abc") + "\"}\n";
    return Manifest::read(folder_.write("m.jsonl", lines));
  }

  // Labels of the first two utterances that are not skipped.
  static std::vector<int64_t> labels(const Manifest& manifest, const std::string& characters) {
    const Dataset dataset(manifest, Tokenizer(Vocabulary::from_texts({characters}), {}),
                          {.unknown_text = Policy::kSkip});
    return {dataset.size_of(0).labels, dataset.size_of(1).labels};
  }

  int64_t num_files() const {
    const std::filesystem::path stored = folder_.path() / "cache" / "sotto" / "labels";
    return std::filesystem::exists(stored)
               ? std::distance(std::filesystem::directory_iterator(stored), {})
               : 0;
  }

  test::TempFolder folder_;
};

TEST_F(LabelCountsOfDatasets, AreStoredOncePerManifestAndTokenizer) {
  const Manifest first = manifest("ab x");
  // x is unknown: the first line is skipped.
  EXPECT_EQ(labels(first, "abc d"), (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(num_files(), 1);
  const Tokenizer tokenizer(Vocabulary::from_texts({"abc d"}), {});
  const std::filesystem::path path =
      label_counts_path(first.fingerprint(), tokenizer.fingerprint());
  // What is stored is what is used.
  std::optional<LabelCounts> stored = read_label_counts(path, kLeastStoredLines);
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->num_labels[1], 3u);
  EXPECT_EQ(stored->has_fault[0], 1);
  stored->num_labels[1] = 2;
  write_label_counts(path, *stored);
  EXPECT_EQ(labels(first, "abc d"), (std::vector<int64_t>{2, 3}));
  // Another tokenizer, another manifest of that name.
  EXPECT_EQ(labels(first, "abc"), (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(num_files(), 2);
  EXPECT_EQ(labels(manifest("abxx"), "abc d"), (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(num_files(), 3);
}

}  // namespace
}  // namespace sotto::data
