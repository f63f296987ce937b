// Stored features: rows of IEEE half-precision numbers, little endian, one behind the other without
// a header (`.f16`), or a matrix that numpy.save wrote (`.npy`). Many utterances share a file; a
// manifest says which rows are whose.
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

// The values [num_frames, feature_dim], row after row; of the file only these are read. A file
// whose name ends in .npy is one of NumPy's. Throws DataError where the file is missing, is no
// whole number of rows, has rows of another dimension, ends before the last row asked for, or where
// a value is NaN or, as fp32, infinite. May be called from several threads at once.
std::vector<float> read_features(const FeatureRows& rows);

}  // namespace sotto::data
