#include "sotto/data/audio/features.h"

#include <c10/util/Half.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <span>
#include <system_error>

#include "sotto/core/error.h"
#include "sotto/core/formats/npy.h"

namespace sotto::data {

namespace {

// Values are read in the file's byte order.
static_assert(std::endian::native == std::endian::little);

[[noreturn]] void refuse(const FeatureRows& rows, const std::string& found,
                         const std::string& expected, const std::string& hint = {}) {
  throw DataError({.attempted = fmt::format("reading {}", rows.path.string()),
                   .found = found,
                   .expected = expected,
                   .hint = hint});
}

void check_rows(const FeatureRows& rows, int64_t num_rows) {
  // Not offset + frames <= rows: the sum of two numbers of a manifest may overflow.
  if (rows.frame_offset <= num_rows && rows.num_frames <= num_rows - rows.frame_offset) return;
  refuse(rows, fmt::format("{} rows", num_rows),
         fmt::format("{} rows starting at row {}", rows.num_frames, rows.frame_offset),
         "The manifest's frame_offset counts rows, not bytes.");
}

void check_bounds(const FeatureRows& rows, int64_t file_bytes) {
  constexpr auto kValueBytes = static_cast<int64_t>(sizeof(c10::Half));
  // In this order: a dimension larger than the file could overflow when multiplied.
  if (rows.feature_dim > file_bytes / kValueBytes ||
      file_bytes % (rows.feature_dim * kValueBytes) != 0) {
    refuse(rows, fmt::format("{} bytes", file_bytes),
           fmt::format("a whole number of rows of {} half-precision values", rows.feature_dim),
           "The manifest's feature_dim is wrong, or the file is truncated.");
  }
  check_rows(rows, file_bytes / (rows.feature_dim * kValueBytes));
}

std::vector<float> read_halves(const FeatureRows& rows) {
  constexpr const char* kFile = "a file of features in half precision";
  std::error_code error;
  if (std::filesystem::is_directory(rows.path, error)) refuse(rows, "it is a folder", kFile);
  const auto file_bytes = static_cast<int64_t>(std::filesystem::file_size(rows.path, error));
  if (error) refuse(rows, error.message(), kFile);
  check_bounds(rows, file_bytes);

  errno = 0;
  std::ifstream file(rows.path, std::ios::binary);
  if (!file) refuse(rows, std::generic_category().message(errno), kFile);
  std::vector<c10::Half> halves(static_cast<size_t>(rows.num_frames * rows.feature_dim));
  file.seekg(rows.frame_offset * rows.feature_dim * static_cast<int64_t>(sizeof(c10::Half)));
  file.read(reinterpret_cast<char*>(halves.data()),
            static_cast<std::streamsize>(halves.size() * sizeof(c10::Half)));
  if (!file) refuse(rows, "it could not be read up to the last requested row", kFile);
  return {halves.begin(), halves.end()};
}

// The values may be unaligned in the file.
template <class Number>
std::vector<float> as_floats(std::span<const std::byte> bytes) {
  std::vector<float> values;
  values.reserve(bytes.size() / sizeof(Number));
  for (size_t at = 0; at < bytes.size(); at += sizeof(Number)) {
    Number number;
    std::memcpy(&number, bytes.data() + at, sizeof(number));
    values.push_back(static_cast<float>(number));
  }
  return values;
}

std::vector<float> read_npy(const FeatureRows& rows) {
  const NpyFile file = NpyFile::open(rows.path);
  if (file.shape()[1] != rows.feature_dim) {
    refuse(rows, fmt::format("rows of {} values", file.shape()[1]),
           fmt::format("{}, the manifest's feature_dim", rows.feature_dim));
  }
  check_rows(rows, file.shape()[0]);
  const std::vector<std::byte> bytes = file.read(rows.frame_offset, rows.num_frames);
  switch (file.type()) {
    case TensorType::kFloat16: return as_floats<c10::Half>(bytes);
    case TensorType::kFloat64: return as_floats<double>(bytes);
    default: return as_floats<float>(bytes);
  }
}

}  // namespace

std::vector<float> read_features(const FeatureRows& rows) {
  SOTTO_ASSERT(rows.frame_offset >= 0 && rows.num_frames > 0 && rows.feature_dim > 0,
               "{} rows of {} from {}", rows.num_frames, rows.feature_dim, rows.frame_offset);
  const std::vector<float> values =
      rows.path.extension() == ".npy" ? read_npy(rows) : read_halves(rows);
  const auto bad = std::ranges::find_if_not(values, [](float x) { return std::isfinite(x); });
  if (bad == values.end()) return values;
  const int64_t index = bad - values.begin();
  refuse(rows,
         fmt::format("row {}, column {} is {}", rows.frame_offset + index / rows.feature_dim,
                     index % rows.feature_dim, *bad),
         "finite values");
}

}  // namespace sotto::data
