#include "sotto/data/text/text_corpus.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <set>

#include "sotto/core/error.h"
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

std::vector<std::string> texts_of(const fs::path& path, Documents documents) {
  std::vector<std::string> texts;
  DocumentReader reader(path, documents);
  while (auto document = reader.next()) texts.push_back(document->text);
  return texts;
}

using Texts = std::vector<std::string>;

TEST(DocumentReader, ReadsLinesAndParagraphs) {
  const TempFolder folder;
  const auto path =
      folder.write("a.txt", "\xEF\xBB\xBF\n\none\r\ntwo\n\n  \n\nthree\n\t\nfour\nfive");
  EXPECT_EQ(texts_of(path, Documents::kLine), (Texts{"one", "two", "three", "four", "five"}));
  EXPECT_EQ(texts_of(path, Documents::kParagraph), (Texts{"one\ntwo", "three", "four\nfive"}));
  EXPECT_TRUE(texts_of(folder.write("empty.txt", ""), Documents::kLine).empty());
  EXPECT_TRUE(texts_of(folder.write("blank.txt", "\n \n"), Documents::kParagraph).empty());
}

TEST(DocumentReader, ReadsTheTextOfJsonLines) {
  const TempFolder folder;
  const auto path = folder.write("a.jsonl",
                                 "{\"text\": \"one\\n\\ntwo\", \"id\": 1}\n\n{\"text\": \" \"}\n"
                                 "{\"audio_filepath\": \"a.wav\", \"text\": \"żółty\"}\n");
  EXPECT_EQ(texts_of(path, Documents::kParagraph), (Texts{"one\n\ntwo", "żółty"}));
  const auto refused = [&](const std::string& line) {
    const auto broken = folder.write("b.jsonl", "{\"text\": \"a\"}\n" + line + "\n");
    return message_of<DataError>([&] { texts_of(broken, Documents::kLine); });
  };
  EXPECT_PRED2(contains, refused("{\"text\": \"a"), "b.jsonl: line 2: it is not JSON");
  EXPECT_PRED2(contains, refused("{\"txt\": \"a\"}"), "line 2: no text. Expected an object");
  EXPECT_PRED2(contains, refused("{\"text\": 7}"), "line 2: no text");
  EXPECT_PRED2(contains, refused("[\"text\"]"), "line 2: no text");
}

TEST(DocumentReader, ReportsErrors) {
  const TempFolder folder;
  const auto refused = [](const fs::path& path) {
    return message_of<DataError>([&] { texts_of(path, Documents::kLine); });
  };
  EXPECT_PRED2(contains, refused(folder.write("a.txt", "ok\ngr\xFC\n")),
               "line 2: bytes that are not UTF-8. Expected text in UTF-8. If it is compressed");
  EXPECT_PRED2(contains, refused(folder.path() / "no.txt"), "No such file");
  EXPECT_PRED2(contains, refused(folder.path()), "it is a folder");
}

// Lines that end exactly at the end of a chunk of the file, and longer ones.
TEST(DocumentReader, ReadsLongLines) {
  const TempFolder folder;
  const std::string longest(3 << 20, 'x');
  const std::string exact((1 << 20) - 1, 'y');
  const auto path = folder.write("a.txt", exact + "\n" + longest + "\nend\n");
  EXPECT_EQ(texts_of(path, Documents::kLine), (Texts{exact, longest, "end"}));
}

class SplitText : public testing::Test {
 protected:
  // Numbered documents, some of two lines; every tenth is the same.
  std::string make_text(int64_t count) const {
    std::string text;
    for (int64_t i = 0; i < count; ++i)
      text += i % 10 == 0 ? "again\n\n" : "document " + std::to_string(i) + "\nsecond line\n\n";
    return text;
  }
  std::map<std::string, std::set<std::string>> split(const std::string& text, const char* out,
                                                     const TextSplitOptions& options) const {
    const TextSplit made =
        split_text({folder_.write("a.txt", text)}, folder_.path() / out, options);
    std::map<std::string, std::set<std::string>> parts;
    for (const TextSplit::Part& part : made.parts) {
      const Texts texts = texts_of(part.path, options.documents);
      EXPECT_EQ(std::ssize(texts), part.documents);
      EXPECT_EQ(static_cast<int64_t>(fs::file_size(part.path)), part.bytes);
      parts[part.name] = {texts.begin(), texts.end()};
    }
    return parts;
  }

  TempFolder folder_;
};

TEST_F(SplitText, KeepsEveryDocumentWholeAndOnce) {
  auto parts = split(make_text(4000), "out", {});
  std::set<std::string> all;
  size_t count = 0;
  for (const auto& [name, texts] : parts) {
    all.insert(texts.begin(), texts.end());
    count += texts.size();
  }
  EXPECT_EQ(count, 3601u);  // no document is in two parts, the one that comes again neither
  EXPECT_EQ(all.size(), 3601u);
  EXPECT_TRUE(all.contains("document 17\nsecond line"));
  // 85, 10 and 5 %, to four standard deviations.
  EXPECT_NEAR(static_cast<double>(parts["dev"].size()), 360.0, 72.0);
  EXPECT_NEAR(static_cast<double>(parts["test"].size()), 180.0, 52.0);
}

TEST_F(SplitText, DependsOnlyOnSeedAndText) {
  const auto first = split(make_text(1000), "a", {});
  EXPECT_EQ(split(make_text(1000), "b", {}), first);
  EXPECT_NE(split(make_text(1000), "c", {.seed = 2}), first);
  for (const auto& [name, texts] : split(make_text(2000), "d", {})) {
    for (const std::string& text : first.at(name)) EXPECT_TRUE(texts.contains(text)) << text;
  }
}

TEST_F(SplitText, AcceptsOtherShares) {
  const auto parts = split(make_text(300), "out", {.dev = 0.5, .test = 0.0});
  EXPECT_FALSE(parts.contains("test"));
  EXPECT_FALSE(fs::exists(folder_.path() / "out/test.txt"));
  EXPECT_NEAR(static_cast<double>(parts.at("dev").size()), 135.0, 40.0);
  EXPECT_PRED2(contains,
               message_of<ConfigError>([&] { split("a", "no", {.dev = 0.6, .test = 0.4}); }),
               "shares of 0.6 and 0.4");
}

TEST_F(SplitText, LeavesJsonLinesAsTheyAre) {
  std::string lines;
  for (int i = 0; i < 200; ++i)
    lines += "{\"id\":  " + std::to_string(i) + ", \"text\": \"t" + std::to_string(i) + "\"}\n";
  const auto input = folder_.write("a.jsonl", lines);
  const TextSplit made = split_text({input}, folder_.path() / "out", {});
  std::string together;
  for (const TextSplit::Part& part : made.parts) {
    EXPECT_EQ(part.path.extension(), ".jsonl");
    together += content_of(part.path);
  }
  EXPECT_EQ(together.size(), lines.size());
  EXPECT_PRED2(contains, together, "{\"id\":  42, \"text\": \"t42\"}\n");
  const auto plain = folder_.write("b.txt", "a\n");
  EXPECT_PRED2(contains, message_of<DataError>([&] {
                 split_text({input, plain}, folder_.path() / "mixed", {});
               }),
               "JSON lines alone, or plain text alone");
}

TEST_F(SplitText, LeavesNothingBehindOnFailure) {
  const auto refused = [&](const std::string& text) {
    return message_of<DataError>([&] { split(text, "out", {}); });
  };
  EXPECT_PRED2(contains, refused("one\ntwo\nthree\n"), "none of 1 document.");
  EXPECT_PRED2(contains, refused("one\n\ngr\xFC\n"), "line 3");
  EXPECT_FALSE(fs::exists(folder_.path() / "out"));
  folder_.write("out/mine.txt", "a");
  EXPECT_PRED2(contains, refused(make_text(500)), "it exists and is not an empty folder");
  EXPECT_EQ(content_of(folder_.path() / "out/mine.txt"), "a");
}

TEST_F(SplitText, ReportsFullDisk) {
  const std::string text = make_text(20'000);
  const auto input = folder_.write("a.txt", text);
  const auto out = folder_.path() / "out";
  const test::FullDisk full(4096);
  EXPECT_PRED2(contains, message_of<DataError>([&] { split_text({input}, out, {}); }), "writing");
  EXPECT_FALSE(fs::exists(out));
}

}  // namespace
}  // namespace sotto::data
