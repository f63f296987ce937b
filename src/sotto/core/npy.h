// Arrays that NumPy wrote with numpy.save (numpy.lib.format, versions 1.0 to 3.0): a few bytes that
// say what it is, a header in Python's notation, the values.
//
//   const NpyFile file = NpyFile::open("features.npy");
//   file.array().bytes.subspan(...)
#pragma once

#include <filesystem>
#include <utility>

#include "sotto/core/mapped_file.h"
#include "sotto/core/tensor_view.h"

namespace sotto {

// A file opened for reading, mapped into memory: only what is looked at is read. It must not change
// while it is open.
class NpyFile {
 public:
  // Checks the whole header. Throws DataError where the file is missing, cut short, no such file,
  // or where it holds anything but a matrix of little-endian numbers of 2, 4 or 8 bytes with a
  // fraction, row after row, and exactly as many as its shape says.
  static NpyFile open(const std::filesystem::path& path);

  // Of two dimensions. It lasts as long as the file is open.
  const TensorView& array() const { return array_; }

 private:
  explicit NpyFile(MappedFile file) : file_(std::move(file)) {}

  MappedFile file_;
  TensorView array_;
};

}  // namespace sotto
