#include "sotto/core/formats/zip_reader.h"

#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "support/bytes.h"
#include "support/thrown.h"
#include "unit/core/formats/torch_bytes.h"

namespace sotto {
namespace {

using test::contains;
using test::message_of;
using test::text_of;
using test::zip_of;
using test::ZipFile;

ZipEntries read_archive(const std::string& archive) {
  return read_zip(std::as_bytes(std::span(archive)), "a.zip");
}

std::string zip_refusal(const std::string& archive) {
  const std::string message = message_of<DataError>([&] { read_archive(archive); });
  EXPECT_PRED2(contains, message, "reading a.zip: ");
  return message;
}

const std::vector<ZipFile> kFiles = {{"top/a", "first"}, {"top/b/c", ""}, {"d", "last"}};

TEST(ZipReader, ReadsFilesInPlace) {
  for (const test::ZipForm& form :
       {test::ZipForm{}, test::ZipForm{.is_64 = true}, test::ZipForm{.comment = "with words"},
        test::ZipForm{.is_64 = true, .comment = "PK\x05\x06"}}) {
    const std::string archive = zip_of(kFiles, form);
    const ZipEntries entries = read_archive(archive);
    ASSERT_EQ(entries.size(), 3u);
    for (const ZipFile& file : kFiles) EXPECT_EQ(text_of(entries.at(file.name)), file.content);
    const char* first = reinterpret_cast<const char*>(entries.at("top/a").data());
    EXPECT_EQ(first, archive.data() + archive.find("first"));
  }
  EXPECT_TRUE(read_archive(zip_of({})).empty());
}

TEST(ZipReader, RefusesCompressedOrEncryptedFiles) {
  EXPECT_PRED2(contains, zip_refusal(zip_of({{"a", "xyz", /*method=*/8}})),
               "its file 'a' is compressed or encrypted");
  std::string archive = zip_of({{"a", "xyz"}});
  archive[archive.find("PK\x01\x02") + 8] = 1;
  EXPECT_PRED2(contains, zip_refusal(archive), "compressed or encrypted");
  archive = zip_of({{"a", "xyz"}});
  archive[archive.find("PK\x01\x02") + 20] = 2;
  EXPECT_PRED2(contains, zip_refusal(archive), "compressed or encrypted");
}

TEST(ZipReader, RefusesDuplicateNames) {
  EXPECT_PRED2(contains, zip_refusal(zip_of({{"a", "1"}, {"a", "2"}})), "two files 'a' in it");
}

TEST(ZipReader, RefusesTruncationAtEveryByte) {
  for (const bool is_64 : {false, true}) {
    const std::string good = zip_of(kFiles, {.is_64 = is_64});
    for (size_t size = 0; size < good.size(); ++size)
      EXPECT_PRED2(contains, zip_refusal(good.substr(0, size)), "an archive without its end");
  }
}

TEST(ZipReader, RefusesOffsetsOutsideTheArchive) {
  const auto broken = [](const std::string& record, size_t at, const std::string& bytes,
                         bool is_64 = false) {
    std::string archive = zip_of({{"a", "xyz"}}, {.is_64 = is_64});
    archive.replace(archive.rfind(record) + at, bytes.size(), bytes);
    return zip_refusal(archive);
  };
  const std::string many(4, '\xfe');
  const std::string most(8, '\xff');
  // Both sizes of an entry, its offset; the directory's offset and count, the same in 64 bits.
  EXPECT_PRED2(contains, broken("PK\x01\x02", 20, many + many), "the archive ends after");
  EXPECT_PRED2(contains, broken("PK\x01\x02", 42, many), "the archive ends after");
  EXPECT_PRED2(contains, broken("PK\x01\x02", 42, "\x01"), "the file 'a' is not where it should");
  EXPECT_PRED2(contains, broken("PK\x01\x02", 28, "\xff\xff"), "the archive ends after");
  EXPECT_PRED2(contains, broken("PK\x05\x06", 16, many), "the archive ends after");
  EXPECT_PRED2(contains, broken("PK\x05\x06", 16, "\x01"), "a directory without its entries");
  EXPECT_PRED2(contains, broken("PK\x05\x06", 10, "\x02"), "a directory without its entries");
  EXPECT_PRED2(contains, broken("PK\x06\x07", 8, most, true), "the archive ends after");
  EXPECT_PRED2(contains, broken("PK\x06\x07", 8, "\x01", true), "whose end is not where it says");
  EXPECT_PRED2(contains, broken("PK\x06\x06", 48, most, true), "the archive ends after");
  EXPECT_PRED2(contains, broken("PK\x06\x06", 32, most, true), "a directory without its entries");
  const size_t size_in_extra = 46 + 1 + 6 + 4;
  EXPECT_PRED2(contains, broken("PK\x01\x02", size_in_extra, most + most, true),
               "the archive ends after");
  EXPECT_PRED2(contains, broken("PK\x01\x02", size_in_extra + 16, most, true),
               "the archive ends after");
  EXPECT_PRED2(contains, broken("PK\x01\x02", 46 + 1 + 2, "\xff", true),
               "an extra field of the archive ends");
  EXPECT_PRED2(contains, broken("PK\x01\x02", 46, "\xff"), "name is not UTF-8");
}

}  // namespace
}  // namespace sotto
