#include "sotto/core/formats/tar_reader.h"

#include <gtest/gtest.h>

#include <map>

#include "sotto/core/error.h"
#include "support/tar_bytes.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto {
namespace {

using test::contains;
using test::message_of;
using test::pax_record;
using test::tar_end;
using test::tar_file;
using test::tar_header;
using test::TarHeader;
using test::TempFolder;

std::string text_of(const FilePart& part) {
  std::string text(static_cast<size_t>(part.size), '\0');
  text.resize(static_cast<size_t>(part.read(0, text)));
  return text;
}

std::map<std::string, std::string> files_of(const std::string& archive) {
  std::map<std::string, std::string> files;
  walk_tar(std::as_bytes(std::span(archive)), "a.tar", [&](const TarEntry& entry, size_t) {
    files[entry.name] = archive.substr(entry.offset, entry.size);
  });
  return files;
}

std::string tar_refusal(const std::string& archive) {
  return message_of<DataError>([&] { files_of(archive); });
}

using Files = std::map<std::string, std::string>;

TEST(TarReader, ReadsUstar) {
  const std::string archive =
      tar_file({.name = "folder/", .type = '5'}, "") + tar_file({.name = "./a.flac"}, "first") +
      tar_file({.name = "b.flac", .prefix = "deep/er"}, std::string(512, 'x')) +
      tar_file({.name = "empty"}, "") +
      tar_file({.name = "link", .size = "00000000777", .type = '2'}, "") +
      tar_file({.name = "old", .type = '\0', .magic = ""}, "v7");
  const Files files = {
      {"a.flac", "first"}, {"deep/er/b.flac", std::string(512, 'x')}, {"empty", ""}, {"old", "v7"}};
  EXPECT_EQ(files_of(archive + tar_end()), files);
  // The end may be missing, and the last padding.
  EXPECT_EQ(files_of(archive), files);
  EXPECT_EQ(files_of(archive.substr(0, archive.size() - 510)), files);
  EXPECT_TRUE(files_of(tar_end()).empty());
}

TEST(TarReader, ReadsLongNames) {
  const std::string name = std::string(180, 'n') + ".flac";
  const std::string gnu = tar_file({.name = "././@LongLink", .type = 'K'}, "a link") +
                          tar_file({.name = "././@LongLink", .type = 'L'}, name + '\0') +
                          tar_file({.name = name}, "content");
  EXPECT_EQ(files_of(gnu), (Files{{name, "content"}}));
  const std::string pax = tar_file({.name = "g", .type = 'g'}, pax_record("comment", "c")) +
                          tar_file({.name = "x", .type = 'x'}, pax_record("mtime", "1.5") +
                                                                   pax_record("path", "ö/é.flac") +
                                                                   pax_record("size", "7")) +
                          tar_file({.name = "short", .size = "00000000000"}, "content");
  EXPECT_EQ(files_of(pax), (Files{{"ö/é.flac", "content"}}));
  // What is said of a folder is not said of the file behind it.
  const std::string folder = tar_file({.name = "x", .type = 'x'}, pax_record("path", "f")) +
                             tar_file({.name = "f", .type = '5'}, "") +
                             tar_file({.name = "a"}, "1");
  EXPECT_EQ(files_of(folder), (Files{{"a", "1"}}));
}

TEST(TarReader, ReadsSizesInBinary) {
  std::string size(12, '\0');
  size[0] = '\x80';
  size[11] = '\x03';
  EXPECT_EQ(files_of(tar_file({.name = "a", .size = size}, "abc")), (Files{{"a", "abc"}}));
  size[1] = '\x01';
  EXPECT_PRED2(contains, tar_refusal(tar_file({.name = "a", .size = size}, "abc")),
               "an implausible file size");
}

TEST(TarReader, RefusesInconsistentArchives) {
  const std::string good = tar_file({.name = "a"}, "content");
  EXPECT_PRED2(
      contains, tar_refusal(good.substr(0, 300)),
      "reading a.tar: the archive ends after 300 bytes. Expected 512 bytes starting at byte 0");
  EXPECT_PRED2(contains, tar_refusal(tar_file({.size = "77777777777"}, "content")),
               "Expected 8589934591 bytes starting at byte 512");
  std::string wrong = good;
  wrong[0] = 'b';
  EXPECT_PRED2(contains, tar_refusal(wrong),
               "a header with a wrong checksum. Expected a complete tar archive");
  EXPECT_PRED2(contains, tar_refusal(tar_file({.size = "no number"}, "")), "without its numbers");
  EXPECT_PRED2(contains, tar_refusal(tar_file({.name = ""}, "")), "a file without a name");
  EXPECT_PRED2(contains, tar_refusal(tar_file({.name = "\xff"}, "")), "name is not UTF-8");
  EXPECT_PRED2(contains, tar_refusal(tar_file({.type = 'S'}, "")), "a sparse file");
  EXPECT_PRED2(contains, tar_refusal(tar_file({.type = 'L'}, "name")),
               "a long name without its file");
  for (const std::string records :
       {"x", "5", "5 a=", "999 path=a\n", "4 a\n", "0 path=a\n", "18446744073709551616 a=\n",
        "11 size=-1\n", "9 size=\n", "23 GNU.sparse.major=1\n"}) {
    const std::string archive = tar_file({.type = 'x'}, records) + good;
    EXPECT_PRED2(contains, tar_refusal(archive), "reading a.tar: byte") << records;
  }
}

TEST(TarFile, FindsByName) {
  const TempFolder folder;
  std::string archive;
  for (int i = 0; i < 100; ++i)
    archive += tar_file({.name = fmt::format("{}.flac", i)}, fmt::format("content {}", i));
  const TarFile tar = TarFile::open(folder.write("a.tar", archive + tar_end()));
  EXPECT_EQ(tar.size(), 100);
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(text_of(tar.find(fmt::format("{}.flac", i)).value()), fmt::format("content {}", i));
  EXPECT_FALSE(tar.find("100.flac"));
  EXPECT_FALSE(tar.find(""));
}

// With a mapped file, the process would be killed by a signal.
TEST(TarFile, TruncationDuringUseIsAnError) {
  const TempFolder folder;
  const auto path = folder.write("a.tar", tar_file({.name = "a"}, std::string(2'000, 'a')) +
                                              tar_file({.name = "b"}, std::string(2'000, 'b')));
  const TarFile tar = TarFile::open(path);
  std::filesystem::resize_file(path, 1'000);
  EXPECT_EQ(text_of(tar.find("a").value()).size(), 488u);
  EXPECT_PRED2(contains, message_of<DataError>([&] { tar.find("b"); }),
               "It was truncated or replaced while in use.");
}

TEST(TarFile, RefusesOtherFiles) {
  const TempFolder folder;
  const auto refusal = [&](const std::string& content) {
    const auto path = folder.write("a.tar", content);
    return message_of<DataError>([&] { TarFile::open(path); });
  };
  EXPECT_PRED2(contains, refusal(""), "a.tar: the file is empty. Expected a tar archive");
  EXPECT_PRED2(contains, refusal("\x1f\x8b\x08 packed"), "it is compressed");
  EXPECT_PRED2(contains, refusal("a text"), "the archive ends after 6 bytes");
  EXPECT_PRED2(contains, refusal(tar_file({.name = "a"}, "1") + tar_file({.name = "./a"}, "2")),
               "two files 'a' in it. Expected each name once");
  EXPECT_PRED2(contains, message_of<DataError>([&] { TarFile::open(folder.path() / "no.tar"); }),
               "No such file");
  EXPECT_PRED2(contains, message_of<DataError>([&] { TarFile::open(folder.path()); }),
               "it is a folder");
}

}  // namespace
}  // namespace sotto
