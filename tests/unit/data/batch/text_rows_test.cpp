// Texts as tokens in a file, and as rows of a length.
#include "sotto/data/batch/text_rows.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "sotto/core/error.h"
#include "sotto/data/batch/micro_batch.h"
#include "sotto/kernels/loss/cross_entropy.h"
#include "support/full_disk.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::data {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::content_of;
using test::message_of;
using test::TempFolder;

constexpr int32_t kNone = kernels::CrossEntropy::kNoTarget;

using Entries = std::vector<int32_t>;

class Tokens : public testing::Test {
 protected:
  // a to z are 5 to 30.
  Tokenizer tokenizer(const TextRules& rules = {}) const {
    std::string json = R"({"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "|": 4)";
    for (char c = 'a'; c <= 'z'; ++c)
      json += std::string(", \"") + c + "\": " + std::to_string(5 + c - 'a');
    return Tokenizer::read(folder_.write("vocab.json", json + "}"), rules);
  }
  TextSource source(const std::string& text) const {
    return {.path = folder_.write("a.txt", text), .documents = Documents::kLine};
  }
  static Entries entries_of(const TokenFile& tokens) {
    Entries entries;
    for (const TokenFile::Token& token : tokens.read(0, tokens.size()))
      entries.push_back(token.entry);
    return entries;
  }
  // How often `open` makes tokens anew.
  int64_t num_made(const TextSource& from, const Tokenizer& by) const {
    int64_t made = 0;
    TokenFile::open(from, by, [&](int64_t) { ++made; });
    return made;
  }

  TempFolder folder_;
};

TEST_F(Tokens, HaveAnEndMarkAfterEachDocument) {
  const TokenFile tokens = TokenFile::open(source("ab\n\nc a\n"), tokenizer());
  EXPECT_EQ(entries_of(tokens), (Entries{5, 6, 2, 7, 4, 5, 2}));
  EXPECT_EQ(tokens.num_documents(), 2);
  for (int64_t i = 0; i < tokens.size(); ++i)
    EXPECT_EQ(tokens.read(i, 1)[0].is_last, i == 2 || i == 6);
  EXPECT_EQ(fs::file_size(folder_.path() / "a.txt.tokens"), 7u * 2u + 80u);
}

TEST_F(Tokens, LastOfADocumentIsKnownWithoutEndMark) {
  const Tokenizer characters(Vocabulary::from_texts({"ab"}), {});
  const TokenFile tokens = TokenFile::open(source("ab\na\n"), characters);
  EXPECT_EQ(entries_of(tokens), (Entries{2, 3, 2}));
  EXPECT_TRUE(tokens.read(1, 1)[0].is_last);
  EXPECT_FALSE(tokens.read(0, 1)[0].is_last);
  // No entry for what it lacks: nothing to put there.
  EXPECT_PRED2(contains,
               message_of<DataError>([&] { TokenFile::open(source("abX\n"), characters); }),
               "characters 'X', which the tokenizer does not have");
}

TEST_F(Tokens, CountDocumentsWithUnknownCharacters) {
  const TokenFile tokens = TokenFile::open(source("aXb\nab\nYY\n"), tokenizer());
  EXPECT_EQ(entries_of(tokens), (Entries{5, 3, 6, 2, 5, 6, 2, 3, 3, 2}));
  EXPECT_EQ(tokens.num_unknown(), 2);
}

TEST_F(Tokens, AreKeptUntilTextTokenizerOrRulesChange) {
  const TextSource text = source("ab\nc\n");
  EXPECT_EQ(num_made(text, tokenizer()), 1);
  EXPECT_EQ(num_made(text, tokenizer()), 0);
  EXPECT_EQ(num_made(text, tokenizer({.letter_case = LetterCase::kLower})), 1);
  EXPECT_EQ(num_made(text, tokenizer()), 1);
  EXPECT_EQ(num_made({.path = text.path, .documents = Documents::kParagraph}, tokenizer()), 1);
  EXPECT_EQ(num_made(text, tokenizer()), 1);
  // The same number of bytes, another time.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  source("ab\nd\n");
  EXPECT_EQ(num_made(text, tokenizer()), 1);
  const uint64_t fingerprint = TokenFile::open(text, tokenizer()).fingerprint();
  source("ab\nde\n");
  EXPECT_NE(TokenFile::open(text, tokenizer()).fingerprint(), fingerprint);
}

TEST_F(Tokens, AreRecreatedIfTheFileIsBroken) {
  const TextSource text = source("ab\nc\n");
  const auto kept = TokenFile::path_for(text);
  num_made(text, tokenizer());
  const std::string whole = content_of(kept);
  for (const std::string& broken : {whole.substr(0, whole.size() - 1), std::string("?"),
                                    std::string(), whole.substr(2), std::string(200, 'x')}) {
    folder_.write("a.txt.tokens", broken);
    EXPECT_EQ(num_made(text, tokenizer()), 1);
    EXPECT_EQ(content_of(kept), whole);
  }
}

TEST_F(Tokens, TakeFourBytesForALargeVocabulary) {
  std::string json = R"({"<pad>": 0, "|": 1, "a": 2)";
  for (int i = 3; i < 40'000; ++i)
    json += ", \"<" + std::to_string(i) + ">\": " + std::to_string(i);
  json += ", \"z\": 40000}";
  const Tokenizer large = Tokenizer::read(folder_.write("large.json", json), {});
  const TokenFile tokens = TokenFile::open(source("az\n"), large);
  EXPECT_EQ(entries_of(tokens), (Entries{2, 40'000}));
  EXPECT_TRUE(tokens.read(1, 1)[0].is_last);
  EXPECT_EQ(fs::file_size(folder_.path() / "a.txt.tokens"), 2u * 4u + 80u);
}

TEST_F(Tokens, CanGoToACacheFolder) {
  TextSource text = source("ab\n");
  text.cache = folder_.path() / "cache/deep";
  EXPECT_EQ(num_made(text, tokenizer()), 1);
  EXPECT_TRUE(fs::exists(folder_.path() / "cache/deep/a.txt.tokens"));
  EXPECT_FALSE(fs::exists(folder_.path() / "a.txt.tokens"));
  EXPECT_EQ(num_made(text, tokenizer()), 0);
}

TEST_F(Tokens, ReportErrors) {
  const Tokenizer by = tokenizer();
  TextSource text = source("ab\n");
  const auto refused = [&] { return message_of<DataError>([&] { TokenFile::open(text, by); }); };
  text.cache = folder_.write("file", "") / "cache";
  EXPECT_PRED2(contains, refused(), "creating");
  text.cache = folder_.path() / "full";
  {
    source(std::string(200'000, 'a') + "\n");
    const test::FullDisk full(4096);
    EXPECT_PRED2(contains, refused(), "writing");
  }
  EXPECT_TRUE(fs::is_empty(text.cache));
  source(" \n");
  EXPECT_PRED2(contains, refused(), "no text");
  text.path = folder_.path() / "no.txt";
  EXPECT_PRED2(contains, refused(), "No such file");
}

// Every token is an input once, in order; all rows but the last are full.
TEST_F(Tokens, AreCutIntoRows) {
  std::string text;
  for (int i = 0; i < 50; ++i)
    text += std::string(static_cast<size_t>(1 + i * i % 9), 'a') + "bc\n";
  for (const int64_t length : {1, 2, 7, 64, 1000}) {
    const TextRows rows("text", TokenFile::open(source(text), tokenizer()), {.length = length});
    EXPECT_EQ(rows.num_items(), (rows.tokens().size() + length - 1) / length);
    int64_t token = 0;
    for (int64_t r = 0; r < rows.num_items(); ++r) {
      const Example row = rows.row(r);
      EXPECT_EQ(row.utterance, r);
      EXPECT_TRUE(row.rows == length || r + 1 == rows.num_items());
      ASSERT_EQ(std::ssize(row.tokens), row.rows);
      ASSERT_EQ(std::ssize(row.labels), row.rows);
      const auto num_ends = std::ranges::count_if(row.labels, [](int32_t l) { return l == kNone; });
      EXPECT_GE(std::ssize(row.segments), num_ends);
      int64_t in_segments = 0;
      for (const int64_t segment : row.segments) {
        in_segments += segment;
        // A segment ends with its document or with the row.
        EXPECT_TRUE(rows.tokens().read(token + in_segments - 1, 1)[0].is_last ||
                    in_segments == row.rows);
      }
      EXPECT_EQ(in_segments, row.rows);
      for (size_t i = 0; i < row.tokens.size(); ++i, ++token) {
        EXPECT_EQ(row.tokens[i], rows.tokens().read(token, 1)[0].entry);
        const int32_t label = rows.tokens().read(token, 1)[0].is_last
                                  ? kNone
                                  : rows.tokens().read(token + 1, 1)[0].entry;
        EXPECT_EQ(row.labels[i], label);
      }
    }
    EXPECT_EQ(token, rows.tokens().size());
  }
}

TEST_F(Tokens, BecomeSegmentsOfThePack) {
  const TextRows rows("text", TokenFile::open(source("ab\nc\nabc\n"), tokenizer()), {.length = 7});
  const std::vector<Example> examples = {rows.row(0), rows.row(1)};
  EXPECT_EQ(examples[0].segments, (std::vector<int64_t>{3, 2, 2}));
  EXPECT_EQ(examples[1].segments, (std::vector<int64_t>{2}));
  device::HostMemory host(at::kCPU);
  device::StagingBuffer staging(host);
  const MicroBatch batch = make_micro_batch(examples, std::vector<int64_t>{1, 0}, staging, {});
  EXPECT_EQ(batch.packing.lengths(), (std::vector<int64_t>{2, 3, 2, 2}));
  EXPECT_EQ(batch.packing.keys()[0].utterance, 1u);
  for (uint32_t s = 0; s < 3; ++s) {
    EXPECT_EQ(batch.packing.keys()[s + 1].utterance, 0u);
    EXPECT_EQ(batch.packing.keys()[s + 1].segment, s);
  }
  EXPECT_EQ(batch.values.numel(), 9);
  const auto labels = batch.labels.of(1);
  EXPECT_EQ(Entries(labels.begin(), labels.end()), (Entries{6, 2, kNone}));
}

TEST_F(Tokens, RowsAreOneSequenceUnlessDocumentsAreSeparate) {
  const TextSource text = source("ab\nc\nabc\n");
  const TextRows separate("text", TokenFile::open(text, tokenizer()), {.length = 7});
  const TextRows rows("text", TokenFile::open(text, tokenizer()),
                      {.length = 7, .separates_documents = false});
  EXPECT_NE(rows.fingerprint(), separate.fingerprint());
  ASSERT_EQ(rows.num_items(), 2);
  Entries inputs, labels;
  for (int64_t r = 0; r < 2; ++r) {
    const Example row = rows.row(r);
    EXPECT_EQ(row.segments, (std::vector<int64_t>{row.rows}));
    EXPECT_EQ(rows.size_of(r).segments, 1);
    inputs.insert(inputs.end(), row.tokens.begin(), row.tokens.end());
    labels.insert(labels.end(), row.labels.begin(), row.labels.end());
  }
  // Each label is the next input, across documents and rows; only the last token has none.
  inputs.push_back(kNone);
  EXPECT_EQ(labels, Entries(inputs.begin() + 1, inputs.end()));
}

// With a mapped file, the process would be killed by a signal.
TEST_F(Tokens, TruncationDuringUseIsAnError) {
  const TextSource text = source("abcdefghij\nabcdefghij\n");
  const TextRows rows("text", TokenFile::open(text, tokenizer()), {.length = 8});
  std::filesystem::resize_file(TokenFile::path_for(text), 10);
  EXPECT_PRED2(contains, message_of<DataError>([&] { rows.row(1); }),
               "It was truncated or replaced while in use.");
}

}  // namespace
}  // namespace sotto::data
