#include "sotto/core/formats/safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>

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
using test::message_of;
using test::TempFolder;
using test::text_of;

// A file of a header, with its length before it, and data.
std::string file_of(const std::string& header, const std::string& data = {}) {
  std::string length(8, '\0');
  const uint64_t size = header.size();
  std::memcpy(length.data(), &size, length.size());
  return length + header + data;
}

std::string safetensors_refusal(const std::string& content) {
  const TempFolder folder;
  const auto path = folder.write("a.safetensors", content);
  return message_of<DataError>([&] { SafetensorsFile::open(path); });
}

TEST(Safetensors, AreReadAsTheyWereWritten) {
  const TempFolder folder;
  const auto path = folder.path() / "a.safetensors";
  const std::vector<SafetensorsEntry> entries = {
      {.name = "bytes", .type = TensorType::kUint8, .shape = {3}, .bytes = bytes_of("abc")},
      {.name = "half", .type = TensorType::kFloat16, .shape = {2, 1}, .bytes = bytes_of("0123")},
      {.name = "brain", .type = TensorType::kBFloat16, .shape = {1}, .bytes = bytes_of("45")},
      {.name = "scalar", .type = TensorType::kInt64, .shape = {}, .bytes = bytes_of("01234567")},
      {.name = "short", .type = TensorType::kInt16, .shape = {2}, .bytes = bytes_of("stuv")},
      {.name = "word", .type = TensorType::kInt32, .shape = {1}, .bytes = bytes_of("wxyz")},
      {.name = "wide", .type = TensorType::kFloat64, .shape = {1}, .bytes = bytes_of("76543210")},
      {.name = "truth", .type = TensorType::kBool, .shape = {1}, .bytes = bytes_of("\x01")},
      {.name = "empty", .type = TensorType::kFloat32, .shape = {4, 0}, .bytes = {}},
      {.name = "float \"\xC3\xA9\"",
       .type = TensorType::kFloat32,
       .shape = {1, 1, 1},
       .bytes = bytes_of("ABCD")},
  };
  write_safetensors(path, entries, {{"format", "pt"}, {"note", "a\n\"b\""}});

  const SafetensorsFile file = SafetensorsFile::open(path);
  EXPECT_EQ(file.names(),
            (std::vector<std::string>{"brain", "bytes", "empty", "float \"\xC3\xA9\"", "half",
                                      "scalar", "short", "truth", "wide", "word"}));
  EXPECT_EQ(file.metadata(), (SafetensorsMetadata{{"format", "pt"}, {"note", "a\n\"b\""}}));
  for (const SafetensorsEntry& entry : entries) {
    const TensorView* view = file.find(entry.name);
    ASSERT_NE(view, nullptr) << entry.name;
    EXPECT_EQ(view->type, entry.type);
    EXPECT_EQ(view->shape, entry.shape);
    EXPECT_EQ(text_of(view->bytes), text_of(entry.bytes));
    const auto address = reinterpret_cast<uintptr_t>(view->bytes.data());
    EXPECT_EQ(address % static_cast<uintptr_t>(size_of(entry.type)), 0u) << entry.name;
  }
  EXPECT_EQ(file.find("other"), nullptr);
  EXPECT_EQ(file.find("__metadata__"), nullptr);
}

TEST(Safetensors, HeaderIsSortedAndPadded) {
  const TempFolder folder;
  const auto path = folder.path() / "a.safetensors";
  const std::vector<SafetensorsEntry> entries = {
      {.name = "b", .type = TensorType::kUint8, .shape = {1}, .bytes = bytes_of("2")},
      {.name = "a", .type = TensorType::kUint8, .shape = {1}, .bytes = bytes_of("1")},
      {.name = "c", .type = TensorType::kFloat32, .shape = {1}, .bytes = bytes_of("0000")},
  };
  write_safetensors(path, entries);
  const std::string header = R"({"c":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                             R"("a":{"dtype":"U8","shape":[1],"data_offsets":[4,5]},)"
                             R"("b":{"dtype":"U8","shape":[1],"data_offsets":[5,6]}}  )";
  EXPECT_EQ(header.size() % 8, 0u);
  EXPECT_EQ(content_of(path), file_of(header, "000012"));
}

TEST(Safetensors, FileWithoutTensorsIsValid) {
  const TempFolder folder;
  const auto path = folder.path() / "a.safetensors";
  write_safetensors(path, {});
  EXPECT_TRUE(SafetensorsFile::open(path).names().empty());
  EXPECT_TRUE(SafetensorsFile::open(path).metadata().empty());
}

TEST(Safetensors, FileObjectMayBeMoved) {
  const TempFolder folder;
  const auto path = folder.path() / "a.safetensors";
  const SafetensorsEntry entry{
      .name = "a", .type = TensorType::kUint8, .shape = {2}, .bytes = bytes_of("xy")};
  write_safetensors(path, std::span(&entry, 1));
  SafetensorsFile file = SafetensorsFile::open(path);
  const TensorView* view = file.find("a");
  const SafetensorsFile moved = std::move(file);
  EXPECT_EQ(moved.find("a"), view);
  EXPECT_EQ(text_of(view->bytes), "xy");
}

TEST(Safetensors, InvalidEntriesLeaveTheFileUntouched) {
  const TempFolder folder;
  const auto path = folder.write("a.safetensors", "before");
  const SafetensorsEntry good{
      .name = "a", .type = TensorType::kUint8, .shape = {1}, .bytes = bytes_of("1")};
  const auto write = [&](const std::vector<SafetensorsEntry>& entries) {
    write_safetensors(path, entries);
  };
  SafetensorsEntry bad = good;
  EXPECT_PRED2(contains, message_of<InternalError>([&] { write({good, bad}); }),
               "two tensors are named 'a'");
  bad.shape = {2};
  EXPECT_PRED2(contains, message_of<InternalError>([&] { write({bad}); }),
               "'a' of shape [2] in U8 has 1 bytes");
  bad = good;
  bad.name = "\xFF";
  EXPECT_THROW(write({bad}), InternalError);
  bad.name = "__metadata__";
  EXPECT_THROW(write({bad}), InternalError);
  EXPECT_THROW(write_safetensors(path, {}, {{"a", "\xFF"}}), InternalError);
  EXPECT_EQ(content_of(path), "before");
}

TEST(Safetensors, FullDiskIsADataError) {
  const TempFolder folder;
  const std::string many(1000, 'x');
  const SafetensorsEntry entry{
      .name = "a", .type = TensorType::kUint8, .shape = {1000}, .bytes = bytes_of(many)};
  EXPECT_PRED2(contains,
               message_of<DataError>([&] { write_safetensors("/dev/full", std::span(&entry, 1)); }),
               "No space left on device");
  const test::FullDisk full(500);
  const auto path = folder.path() / "a.safetensors";
  EXPECT_THROW(write_safetensors(path, std::span(&entry, 1)), DataError);
  EXPECT_PRED2(contains, message_of<DataError>([&] { SafetensorsFile::open(path); }),
               "Expected a begin and an end within the");
}

TEST(Safetensors, OtherFilesAreRefused) {
  const TempFolder folder;
  EXPECT_PRED2(contains,
               message_of<DataError>([&] { SafetensorsFile::open(folder.path() / "no"); }),
               "/no: No such file or directory. Expected a safetensors file.");
  EXPECT_PRED2(contains, message_of<DataError>([&] { SafetensorsFile::open(folder.path()); }),
               "it is not a regular file");
  const auto pipe = folder.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THROW(SafetensorsFile::open(pipe), DataError);
  EXPECT_PRED2(contains, safetensors_refusal(""), "it ends after 0 bytes");
  EXPECT_PRED2(contains, safetensors_refusal(std::string(8, '\0')), "it ends after 8 bytes");
  EXPECT_PRED2(contains, safetensors_refusal(file_of("hello")), "its header is not a JSON object");
  EXPECT_PRED2(contains, safetensors_refusal(file_of("[1]")), "its header is not a JSON object");
  EXPECT_PRED2(contains, safetensors_refusal(file_of("{} x")), "its header is not a JSON object");
  EXPECT_PRED2(contains, safetensors_refusal(file_of(R"({"a":1)")),
               "its header is not a JSON object");
  EXPECT_PRED2(contains, safetensors_refusal(file_of("{\"\xFF\":1}")),
               "its header is not a JSON object");
}

TEST(Safetensors, HeaderBeyondTheFileIsRefused) {
  EXPECT_PRED2(contains, safetensors_refusal(file_of("{}      ").substr(0, 15)),
               "a header of 8 bytes in a file of 15. Expected a header inside the file. If it was "
               "copied or downloaded, copy or download it again.");
  EXPECT_PRED2(contains, safetensors_refusal(std::string(8, '\xFF') + "{}"),
               "a header of 18446744073709551615 bytes");
  EXPECT_PRED2(contains, safetensors_refusal(std::string(7, '\0') + "\x10{}"),
               "a header of 1152921504606846976 bytes in a file of 10");
  // Longer than anybody's header, though the file is longer still.
  const TempFolder folder;
  const auto path = folder.write("a", "\x01\xE1\xF5\x05" + std::string(4, '\0') + "{}");
  std::filesystem::resize_file(path, 200'000'000);
  EXPECT_PRED2(contains, message_of<DataError>([&] { SafetensorsFile::open(path); }),
               "a header of 100000001 bytes in a file of 200000000");
}

TEST(Safetensors, DeeplyNestedHeaderIsRefused) {
  const std::string deep(5'000'000, '[');
  EXPECT_PRED2(contains, safetensors_refusal(file_of(R"({"a":{"dtype":)" + deep)),
               "its header is nested more than 32 levels deep");
  const std::string closed = deep + std::string(deep.size(), ']');
  EXPECT_PRED2(contains, safetensors_refusal(file_of(R"({"a":{"shape":)" + closed + "}}")),
               "its header is nested more than 32 levels deep");
}

// One tensor "a", by the text of its fields, in data of eight bytes.
std::string refusal_of_entry(const std::string& fields) {
  return safetensors_refusal(file_of(R"({"a":{)" + fields + "}}", "01234567"));
}

TEST(Safetensors, TensorThatDoesNotMatchItsBytesIsRefused) {
  EXPECT_PRED2(contains, refusal_of_entry(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"),
               "the tensor 'a' has 8 bytes. Expected as many as shape [3] in F32 needs.");
  EXPECT_PRED2(contains, refusal_of_entry(R"("dtype":"F32","shape":[3],"data_offsets":[0,12])"),
               "data_offsets [0, 12]. Expected a begin and an end within the 8 bytes of data.");
  EXPECT_PRED2(contains, refusal_of_entry(R"("dtype":"U8","shape":[0],"data_offsets":[8,0])"),
               "data_offsets [8, 0]");
  EXPECT_PRED2(contains, refusal_of_entry(R"("dtype":"U8","shape":[8],"data_offsets":[0])"),
               "data_offsets [0]");
  EXPECT_PRED2(contains,
               refusal_of_entry(R"("dtype":"U8","shape":[4294967296,4294967296],)"
                                R"("data_offsets":[0,8])"),
               "the tensor 'a' has 8 bytes");
}

TEST(Safetensors, FieldsOfAnotherTypeAreRefused) {
  EXPECT_PRED2(
      contains, refusal_of_entry(R"("dtype":"U64","shape":[1],"data_offsets":[0,8])"),
      "the tensor 'a' has dtype \"U64\". Expected one of I64, F64, F32, I32, BF16, F16, I16, U8, "
      "BOOL.");
  EXPECT_PRED2(contains, refusal_of_entry(R"("shape":[1],"data_offsets":[0,8])"), "dtype null");
  for (const std::string shape : {"[-1]", "[1.5]", "8", "[\"8\"]", "[18446744073709551615]"}) {
    EXPECT_PRED2(
        contains, refusal_of_entry(R"("dtype":"U8","data_offsets":[0,8],"shape":)" + shape),
        "the tensor 'a' has shape " + shape + ". Expected a list of non-negative integers");
  }
  const std::string list(500, '1');
  EXPECT_PRED2(contains, refusal_of_entry(R"("dtype":"U8","shape":[")" + list + R"("])"), "1...");
  EXPECT_PRED2(contains, safetensors_refusal(file_of(R"({"a":1})")),
               "the tensor 'a' has dtype null");
  EXPECT_PRED2(contains, safetensors_refusal(file_of(R"({"__metadata__":{"a":1}})")),
               "its metadata is not a map of strings");
  EXPECT_PRED2(contains, safetensors_refusal(file_of(R"({"__metadata__":["a"]})")),
               "its metadata is not a map of strings");
}

std::string entry(const std::string& name, int begin, int end) {
  return fmt::format(R"("{}":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}})", name,
                     end - begin, begin, end);
}

TEST(Safetensors, TensorsThatDoNotFillTheDataAreRefused) {
  const auto refusal = [](const std::string& entries) {
    return safetensors_refusal(file_of("{" + entries + "}", "01234567"));
  };
  EXPECT_PRED2(contains, refusal(entry("a", 0, 5) + "," + entry("b", 4, 8)),
               "the tensor 'b' has bytes that overlap another tensor. Expected bytes of its own.");
  EXPECT_PRED2(contains, refusal(entry("a", 0, 8) + "," + entry("b", 0, 8)),
               "overlap another tensor");
  EXPECT_PRED2(contains, refusal(entry("a", 0, 3) + "," + entry("b", 4, 8)),
               "the tensor 'b' has a gap before its bytes");
  EXPECT_PRED2(contains, refusal(entry("a", 1, 8)), "a gap before");
  EXPECT_PRED2(contains, refusal(entry("a", 0, 7)), "8 bytes of data for tensors of 7");
  EXPECT_PRED2(contains, refusal(entry("a", 0, 4) + "," + entry("a", 4, 8)),
               "the name 'a' occurs twice in its header. Expected each name once.");
  EXPECT_PRED2(contains, refusal(R"("a":{"dtype":"U8","dtype":"I8"})"), "'dtype' occurs twice");
}

TEST(Safetensors, EmptyTensorsMayBeAnywhereInTheData) {
  const TempFolder folder;
  const auto path = folder.write(
      "a", file_of("{" + entry("a", 0, 8) + "," + entry("b", 8, 8) + "," + entry("c", 0, 0) + "}",
                   "01234567"));
  EXPECT_EQ(SafetensorsFile::open(path).names().size(), 3u);
}

// Whether a file is read, with what it holds, or refused. Anything else fails the test.
bool is_read(const std::filesystem::path& path) {
  try {
    EXPECT_LE(SafetensorsFile::open(path).names().size(), 2u);
    return true;
  } catch (const DataError&) {
    return false;
  }
}

TEST(Safetensors, BrokenByteIsAtMostADataError) {
  const TempFolder folder;
  const std::string good =
      file_of("{" + entry("a", 0, 4) + "," + entry("b", 4, 8) + "}", "01234567");
  int num_refused = 0;
  for (size_t at = 0; at < good.size() - 8; ++at) {
    for (const char byte : {'"', '9', '\xFF'}) {
      std::string broken = good;
      broken[at] = byte;
      num_refused += is_read(folder.write("a", broken)) ? 0 : 1;
    }
  }
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(is_read(folder.write("a", good.substr(0, size)))) << size;
  }
  EXPECT_GT(num_refused, 200);  // a name may change without harm, little else
}

}  // namespace
}  // namespace sotto
