// A file that is read at any place, from several threads. Unlike a mapped one it may be changed or
// cut by somebody else meanwhile: a read then gives other bytes, or fewer, and nothing crashes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace sotto {

class InputFile {
 public:
  // `expected` says in errors what should be there: "a manifest". Throws DataError where the file
  // is missing, unreadable or no regular one.
  static InputFile open(const std::filesystem::path& path, const std::string& expected);

  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // As they were when it was opened.
  int64_t size() const { return size_; }
  int64_t changed_ns() const { return changed_ns_; }

  // The bytes from `offset` on, as many as fit or as there are; how many. Throws DataError where
  // the system cannot read.
  int64_t read(int64_t offset, std::span<char> bytes) const;

  // All of the bytes. Throws DataError where there are fewer, because the file was cut since it was
  // opened.
  void read_all(int64_t offset, std::span<char> bytes) const;

  // Lets the system forget what it remembers of the file, so that reading reaches the disk; what is
  // not there yet stays.
  void forget() const;

 private:
  InputFile(std::filesystem::path path, int descriptor);

  std::filesystem::path path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
  int64_t changed_ns_ = 0;
};

// Bytes that lie together in a file, which must outlive this.
struct FilePart {
  const InputFile* file = nullptr;
  int64_t offset = 0;
  int64_t size = 0;

  // From `at` on, as many as fit or as the part has; how many. Throws as InputFile::read().
  int64_t read(int64_t at, std::span<char> bytes) const;
};

}  // namespace sotto
