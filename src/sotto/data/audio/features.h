// Stored features: contiguous rows of little-endian half-precision numbers without a header
// (`.f16`), or a matrix written by numpy.save (`.npy`). Many utterances share a file; a manifest
// specifies the rows of each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace sotto::data {

struct FeatureRows {
  std::filesystem::path path;
  int64_t frame_offset = 0;
  int64_t num_frames = 0;
  int64_t feature_dim = 0;
};

// Returns the values [num_frames, feature_dim], row by row; only these are read from the file. A
// file whose name ends in .npy is a NumPy file. Throws DataError if the file is missing, is not a
// whole number of rows, has rows of another dimension or ends before the last requested row, or if
// a value is NaN or, as fp32, infinite. Thread-safe.
std::vector<float> read_features(const FeatureRows& rows);

}  // namespace sotto::data
