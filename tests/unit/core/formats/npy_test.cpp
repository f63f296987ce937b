#include "sotto/core/formats/npy.h"

#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "support/npy_bytes.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto {
namespace {

using test::contains;
using test::message_of;
using test::npy_bytes;
using test::TempFolder;

std::string header_of(const std::string& type, const std::string& shape,
                      const std::string& by_column = "False") {
  return "{'descr': '" + type + "', 'fortran_order': " + by_column + ", 'shape': " + shape + ", }";
}

std::string npy_refusal(const std::string& content) {
  const TempFolder folder;
  const auto path = folder.write("a.npy", content);
  const std::string message = message_of<DataError>([&] { NpyFile::open(path); });
  EXPECT_PRED2(contains, message, path.string());
  return message;
}

std::string refusal_of_header(const std::string& header) {
  return npy_refusal(npy_bytes(header, std::string(24, 'v')));
}

TEST(Npy, IsReadInEveryVersionAndType) {
  struct Row {
    std::string name;
    TensorType type;
    std::vector<int64_t> shape;
  };
  const TempFolder folder;
  for (const auto& [name, type, shape] :
       {Row{"<f2", TensorType::kFloat16, {4, 3}}, Row{"<f4", TensorType::kFloat32, {1, 6}},
        Row{"<f8", TensorType::kFloat64, {3, 1}}}) {
    const std::string header = header_of(name, fmt::format("({}, {})", shape[0], shape[1]));
    for (const uint64_t version : {1, 2, 3}) {
      const std::string values = "abcdefghijklmnopqrstuvwx";
      const auto path = folder.write("a.npy", npy_bytes(header, values, version));
      const NpyFile file = NpyFile::open(path);
      EXPECT_EQ(file.type(), type);
      EXPECT_EQ(file.shape(), shape);
      const std::vector<std::byte> bytes = file.read(0, shape[0]);
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), values);
    }
  }
}

// As written by other programs.
TEST(Npy, HeaderMayHaveAnyOrderAndSpacing) {
  const TempFolder folder;
  for (const char* header :
       {"{\"shape\":(2,3),\"descr\":\"<f4\",\"fortran_order\":False}",
        "{ 'fortran_order' : False , 'shape' : ( 2 , 3 , ) , 'descr':'<f4',}\n"}) {
    const auto path = folder.write("a.npy", npy_bytes(header, std::string(24, 'v')));
    EXPECT_EQ(NpyFile::open(path).shape(), (std::vector<int64_t>{2, 3}));
  }
  const auto path = folder.write("a.npy", npy_bytes(header_of("<f4", "(0, 3)"), ""));
  EXPECT_TRUE(NpyFile::open(path).read(0, 0).empty());
}

TEST(Npy, RefusesUnsupportedArrays) {
  EXPECT_PRED2(contains, refusal_of_header(header_of(">f4", "(2, 3)")),
               "values of type '>f4'. Expected <f2, <f4 or <f8. Write it with numpy.save");
  for (const char* type : {"<i4", "|u1", "<f16", "<c8", "f4", "<f4 ", ""}) {
    EXPECT_PRED2(contains, refusal_of_header(header_of(type, "(2, 3)")),
                 fmt::format("values of type '{}'", type));
  }
  EXPECT_PRED2(
      contains,
      refusal_of_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,)}"),
      "'[('a', '<f4')], 'fortran_order': False");
  EXPECT_PRED2(contains, refusal_of_header(header_of("<f4", "(2, 3)", "True")),
               "column-major order (fortran_order). Expected row-major order. Write it with");
  EXPECT_PRED2(contains, refusal_of_header(header_of("<f4", "(6,)")),
               "an array of 1 dimensions. Expected two: frames and features");
  EXPECT_PRED2(contains, refusal_of_header(header_of("<f4", "()")), "an array of 0 dimensions");
  EXPECT_PRED2(contains, refusal_of_header(header_of("<f4", "(1, 2, 3)")), "of 3 dimensions");
}

TEST(Npy, RefusesShapeThatDoesNotMatchTheValues) {
  EXPECT_PRED2(contains, refusal_of_header(header_of("<f4", "(2, 4)")),
               "24 bytes of values. Expected 2 x 4 of 4 bytes, as its header says");
  EXPECT_PRED2(contains, refusal_of_header(header_of("<f4", "(2, 2)")), "24 bytes of values");
  EXPECT_PRED2(contains, refusal_of_header(header_of("<f8", "(4294967296, 4294967296)")),
               "24 bytes of values. Expected 4294967296 x 4294967296");
  EXPECT_PRED2(contains, refusal_of_header(header_of("<f4", "(9223372036854775807, 2)")),
               "24 bytes of values");
  for (const char* size : {"9223372036854775808", "18446744073709551616", "-1", "2L", "1e3", "x"}) {
    const std::string refusal =
        refusal_of_header(header_of("<f4", "(" + std::string(size) + ", 3)"));
    EXPECT_PRED2(contains, refusal, "in its header") << size;
  }
}

TEST(Npy, RefusesBrokenHeader) {
  for (const char* header :
       {"", "{", "{'descr'", "{'descr': ", "{'descr': '<f4", "[]", "{}",
        "{'descr': '<f4', 'fortran_order': False}", "{'descr': '<f4' 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 6}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'more': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} x"}) {
    EXPECT_PRED2(contains, refusal_of_header(header), "header") << header;
  }
}

TEST(Npy, RefusesOtherFiles) {
  const TempFolder folder;
  EXPECT_PRED2(contains, message_of<DataError>([&] { NpyFile::open(folder.path() / "no.npy"); }),
               "No such file or directory. Expected an array written by numpy.save");
  for (const char* content : {"", "\x93NUMP", "PK\x03\x04 an npz"})
    EXPECT_PRED2(contains, npy_refusal(content), "it does not start with the NumPy signature");
  const std::string good = npy_bytes(header_of("<f4", "(2, 3)"), std::string(24, 'v'));
  for (size_t length = 6; length < good.size(); ++length) npy_refusal(good.substr(0, length));
  std::string later = good;
  later[6] = '\x04';
  EXPECT_PRED2(contains, npy_refusal(later), "version 4.0. Expected version 1.0, 2.0 or 3.0");
  later = npy_bytes(header_of("<f4", "(2, 3)"), std::string(24, 'v'), 2);
  later.replace(8, 4, "\xff\xff\xff\xff");
  EXPECT_PRED2(contains, npy_refusal(later), "Expected 4294967295 bytes starting at byte 12");
}

// With a mapped file, the process would be killed by a signal.
TEST(Npy, TruncationWhileReadingIsAnError) {
  const TempFolder folder;
  const auto path =
      folder.write("a.npy", npy_bytes(header_of("<f4", "(2, 3)"), std::string(24, 'v')));
  const NpyFile file = NpyFile::open(path);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_EQ(file.read(0, 1).size(), 12u);
  EXPECT_PRED2(contains, message_of<DataError>([&] { file.read(1, 1); }),
               "It was truncated or replaced while in use.");
}

}  // namespace
}  // namespace sotto
