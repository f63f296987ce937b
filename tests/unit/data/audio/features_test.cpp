#include "sotto/data/audio/features.h"

#include <gtest/gtest.h>

#include <limits>

#include "sotto/core/error.h"
#include "support/npy_bytes.h"
#include "support/thrown.h"
#include "unit/data/batch/feature_corpus.h"

namespace sotto::data {
namespace {

using test::contains;
using test::message_of;
using test::TempFolder;

std::string refusal_of(const FeatureRows& rows) {
  return message_of<DataError>([&] { read_features(rows); });
}

TEST(ReadFeatures, ReturnsTheRequestedRows) {
  const TempFolder folder;
  const std::filesystem::path path =
      folder.write("x.f16", half_bytes({0.5f, -1, 2, 65504, 6e-8f, 5, 6, 7, 8}));
  const auto rows = [&](int64_t offset, int64_t count) {
    return read_features(
        {.path = path, .frame_offset = offset, .num_frames = count, .feature_dim = 3});
  };
  EXPECT_EQ(rows(0, 1), (std::vector<float>{0.5f, -1, 2}));
  EXPECT_EQ(rows(2, 1), (std::vector<float>{6, 7, 8}));
  EXPECT_EQ(rows(1, 2), (std::vector<float>{65504, 0x1p-24f, 5, 6, 7, 8}));
}

TEST(ReadFeatures, StaysWithinTheFile) {
  const TempFolder folder;
  const std::filesystem::path path = folder.write("x.f16", half_bytes({0, 1, 2, 3, 4, 5}));
  EXPECT_PRED2(
      contains, refusal_of({.path = path, .frame_offset = 2, .num_frames = 1, .feature_dim = 3}),
      "x.f16: 2 rows. Expected 1 rows starting at row 2. The manifest's frame_offset counts "
      "rows, not bytes");
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const auto& [offset, frames] :
       {std::pair<int64_t, int64_t>{0, kMost}, {kMost, 1}, {kMost, kMost}, {3, 1}}) {
    EXPECT_PRED2(
        contains,
        refusal_of({.path = path, .frame_offset = offset, .num_frames = frames, .feature_dim = 3}),
        "2 rows");
  }
  for (const int64_t dim : {int64_t{4}, int64_t{7}, kMost, kMost / 2 + 1}) {
    EXPECT_PRED2(contains, refusal_of({.path = path, .num_frames = 1, .feature_dim = dim}),
                 "12 bytes. Expected a whole number of rows of " + std::to_string(dim));
  }
  EXPECT_PRED2(
      contains,
      refusal_of({.path = folder.write("cut.f16", "abc"), .num_frames = 1, .feature_dim = 1}),
      "3 bytes. Expected a whole number of rows of 1 half-precision values. The "
      "manifest's feature_dim is wrong, or the file is truncated");
  EXPECT_PRED2(
      contains,
      refusal_of({.path = folder.write("empty.f16", ""), .num_frames = 1, .feature_dim = 1}),
      "0 bytes");
}

TEST(ReadFeatures, RefusesInvalidFeatureFiles) {
  const TempFolder folder;
  EXPECT_PRED2(contains,
               refusal_of({.path = folder.path() / "no", .num_frames = 1, .feature_dim = 1}),
               "No such file or directory. Expected a file of features in half precision");
  EXPECT_PRED2(contains, refusal_of({.path = folder.path(), .num_frames = 1, .feature_dim = 1}),
               "it is a folder");
}

TEST(ReadFeatures, RefusesNanAndInfinity) {
  const TempFolder folder;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const std::filesystem::path path =
      folder.write("x.f16", half_bytes({0, 1, 2, nan, -infinity, 5}));
  const FeatureRows rows{.path = path, .frame_offset = 1, .num_frames = 2, .feature_dim = 2};
  EXPECT_PRED2(contains, refusal_of(rows), "row 1, column 1 is nan. Expected finite values");
  EXPECT_PRED2(contains,
               refusal_of({.path = path, .frame_offset = 2, .num_frames = 1, .feature_dim = 2}),
               "row 2, column 0 is -inf");
  EXPECT_EQ(read_features({.path = path, .num_frames = 1, .feature_dim = 2}).size(), 2u);
}

// --- .npy

template <class Number>
std::string bytes_of(const std::vector<Number>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Number)};
}

std::string header_of(const std::string& type, int64_t rows, int64_t columns) {
  return fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}, {}), }}", type, rows,
                     columns);
}

TEST(ReadFeatures, ReturnsTheRowsOfAnArray) {
  const TempFolder folder;
  const std::vector<float> values = {0.5f, -1, 2, 65504, 0x1p-24f, 5, 6, 7, 8};
  const std::vector<double> wide(values.begin(), values.end());
  for (const std::string& content : {test::npy_bytes(header_of("<f2", 3, 3), half_bytes(values)),
                                     test::npy_bytes(header_of("<f4", 3, 3), bytes_of(values)),
                                     test::npy_bytes(header_of("<f8", 3, 3), bytes_of(wide))}) {
    const std::filesystem::path path = folder.write("x.npy", content);
    const auto rows = [&](int64_t offset, int64_t count) {
      return read_features(
          {.path = path, .frame_offset = offset, .num_frames = count, .feature_dim = 3});
    };
    EXPECT_EQ(rows(0, 3), values);
    EXPECT_EQ(rows(1, 1), (std::vector<float>{65504, 0x1p-24f, 5}));
    EXPECT_EQ(rows(1, 2), (std::vector<float>{65504, 0x1p-24f, 5, 6, 7, 8}));
  }
}

TEST(ReadFeatures, StaysWithinTheArray) {
  const TempFolder folder;
  const std::filesystem::path path = folder.write(
      "x.npy", test::npy_bytes(header_of("<f4", 2, 3), bytes_of<float>({0, 1, 2, 3, 4, 5})));
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const auto& [offset, frames] :
       {std::pair<int64_t, int64_t>{2, 1}, {0, 3}, {0, kMost}, {kMost, 1}, {kMost, kMost}}) {
    EXPECT_PRED2(
        contains,
        refusal_of({.path = path, .frame_offset = offset, .num_frames = frames, .feature_dim = 3}),
        "x.npy: 2 rows. Expected");
  }
  EXPECT_PRED2(contains, refusal_of({.path = path, .num_frames = 1, .feature_dim = 2}),
               "x.npy: rows of 3 values. Expected 2, the manifest's feature_dim");
}

// A double may exceed the range of fp32.
TEST(ReadFeatures, RefusesNanAndInfinityInAnArray) {
  const TempFolder folder;
  const std::filesystem::path path = folder.write(
      "x.npy", test::npy_bytes(header_of("<f8", 2, 2), bytes_of<double>({0, 1, 2, 1e300})));
  EXPECT_PRED2(contains, refusal_of({.path = path, .num_frames = 2, .feature_dim = 2}),
               "row 1, column 1 is inf. Expected finite values");
  EXPECT_EQ(read_features({.path = path, .num_frames = 1, .feature_dim = 2}).size(), 2u);
}

}  // namespace
}  // namespace sotto::data
