// Arrays written by numpy.save (numpy.lib.format, versions 1.0 to 3.0): magic bytes, a header in
// Python's notation, the values.
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
  // Opens a file and checks the whole header. Throws DataError where the file is missing,
  // truncated, not a .npy file, or where it holds anything but a row-major matrix of little-endian
  // floating-point numbers of 2, 4 or 8 bytes whose number of values matches its shape.
  static NpyFile open(const std::filesystem::path& path);

  TensorType type() const { return type_; }
  // The shape of the array: rows and columns.
  const std::vector<int64_t>& shape() const { return shape_; }
  // Reads some of the existing rows, in the file's representation. Throws DataError where the file
  // was truncated after it was opened, or cannot be read.
  std::vector<std::byte> read(int64_t first_row, int64_t num_rows) const;

 private:
  explicit NpyFile(InputFile file) : file_(std::move(file)) {}

  InputFile file_;
  TensorType type_ = TensorType::kFloat32;
  std::vector<int64_t> shape_;
  // Offset of the values in the file.
  int64_t values_at_ = 0;
};

}  // namespace sotto
