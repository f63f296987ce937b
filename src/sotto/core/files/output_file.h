// A file for writing, unbuffered, so that a full disk is detected by the write that fails and
// nothing is copied. The checksum is updated with every write.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "sotto/core/files/checksum.h"

namespace sotto {

class OutputFile {
 public:
  // Creates or truncates the file. Throws DataError where that is not possible.
  static OutputFile create(const std::filesystem::path& path);
  // Creates the file or opens it at its end. Throws DataError where that is not possible.
  static OutputFile append(const std::filesystem::path& path);

  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Appends all bytes. Throws DataError where they do not fit on the disk; part of them may then be
  // in the file.
  void write(std::span<const std::byte> bytes);

  // Returns when everything written would survive a power failure. Throws DataError.
  void sync();

  // Closes the file; some file systems report a full disk only now. Throws DataError.
  void close();

  // Size and checksum of all bytes written through this object.
  FileSum sum() const { return checksum_.sum(); }

 private:
  OutputFile(std::filesystem::path path, int descriptor);

  std::filesystem::path path_;
  int descriptor_ = -1;
  Checksum checksum_;
};

// Writes one file and replaces an existing one. Neither synced nor atomic: for files in an
// AtomicFolder, which syncs all of them. Throws DataError where it cannot be written.
FileSum write_file(const std::filesystem::path& path, std::span<const std::byte> bytes);

// Throws DataError with the system's message for errno and a hint.
[[noreturn]] void throw_file_error(const char* doing, const std::filesystem::path& path);

}  // namespace sotto
