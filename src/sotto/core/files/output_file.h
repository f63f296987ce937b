// A file being written, straight to the system, so that a full disk is noticed where it happens and
// nothing is copied on the way. Its checksum is taken as the bytes go by.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "sotto/core/files/checksum.h"

namespace sotto {

class OutputFile {
 public:
  // Creates the file, or empties it. Throws DataError where that is not possible.
  static OutputFile create(const std::filesystem::path& path);
  // Creates the file, or goes on at its end. Throws DataError where that is not possible.
  static OutputFile append(const std::filesystem::path& path);

  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Appends all bytes. Throws DataError where they do not fit on the disk; part of them may then
  // stand in the file.
  void write(std::span<const std::byte> bytes);

  // Returns when all that was written would survive a power failure. Throws DataError.
  void sync();

  // Ends the writing; a file system may tell only now that there was no room. Throws DataError.
  void close();

  // Of all bytes that were written here.
  FileSum sum() const { return checksum_.sum(); }

 private:
  OutputFile(std::filesystem::path path, int descriptor);

  std::filesystem::path path_;
  int descriptor_ = -1;
  Checksum checksum_;
};

// Writes one file, in place of what is there. Not synced and not atomic: for files inside of an
// AtomicFolder, which syncs them all. Throws DataError where it cannot be written.
FileSum write_file(const std::filesystem::path& path, std::span<const std::byte> bytes);

// Throws DataError with what the system says of its last call (errno) and what to try.
[[noreturn]] void throw_file_error(const char* doing, const std::filesystem::path& path);

}  // namespace sotto
