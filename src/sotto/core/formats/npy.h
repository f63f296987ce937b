// Arrays that NumPy wrote with numpy.save (numpy.lib.format, versions 1.0 to 3.0): a few bytes that
// say what it is, a header in Python's notation, the values.
//
//   const NpyFile file = NpyFile::open("features.npy");
//   file.read(first_row, num_rows)
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <utility>
#include <vector>

#include "sotto/core/files/input_file.h"
#include "sotto/core/formats/tensor_view.h"

namespace sotto {

class NpyFile {
 public:
  // Checks the whole header. Throws DataError where the file is missing, cut short, no such file,
  // or where it holds anything but a matrix of little-endian numbers of 2, 4 or 8 bytes with a
  // fraction, row after row, and exactly as many as its shape says.
  static NpyFile open(const std::filesystem::path& path);

  TensorType type() const { return type_; }
  // The shape of the array: rows and columns.
  const std::vector<int64_t>& shape() const { return shape_; }
  // The values of some rows that are there, as they lie in the file. Throws DataError where the
  // file was cut since it was opened, or cannot be read.
  std::vector<std::byte> read(int64_t first_row, int64_t num_rows) const;

 private:
  explicit NpyFile(InputFile file) : file_(std::move(file)) {}

  InputFile file_;
  TensorType type_ = TensorType::kFloat32;
  std::vector<int64_t> shape_;
  // Where they begin.
  int64_t values_at_ = 0;
};

}  // namespace sotto
