// A file for random-access reads from several threads. Unlike a mapped file it may be changed or
// truncated by another process: a read then returns other bytes, or fewer, but does not crash.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace sotto {

class InputFile {
 public:
  // Opens a file. `expected` describes it in errors: "a manifest". Throws DataError where it is
  // missing, unreadable or not a regular file.
  static InputFile open(const std::filesystem::path& path, const std::string& expected);

  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Values at the time the file was opened.
  int64_t size() const { return size_; }
  int64_t changed_ns() const { return changed_ns_; }

  // Reads from `offset` until `bytes` is full or the file ends; returns the number of bytes read.
  // Throws DataError on a read error.
  int64_t read(int64_t offset, std::span<char> bytes) const;

  // Fills `bytes` completely. Throws DataError where the file has fewer bytes, because it was
  // truncated after it was opened.
  void read_all(int64_t offset, std::span<char> bytes) const;

  // Drops the file from the page cache, so that later reads reach the disk; unwritten pages stay.
  void forget() const;

 private:
  InputFile(std::filesystem::path path, int descriptor);

  std::filesystem::path path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
  int64_t changed_ns_ = 0;
};

// A contiguous range of a file, which must outlive this.
struct FilePart {
  const InputFile* file = nullptr;
  int64_t offset = 0;
  int64_t size = 0;

  // Reads from `at` until `bytes` is full or the part ends; returns the number of bytes read.
  // Throws as InputFile::read() does.
  int64_t read(int64_t at, std::span<char> bytes) const;
};

}  // namespace sotto
