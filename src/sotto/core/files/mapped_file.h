// A whole file for reading, mapped into memory: only what is looked at is read. It must not change
// while it is open.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace sotto {

class MappedFile {
 public:
  // `expected` says in errors what should be there: "a safetensors file". Throws DataError where
  // the file is missing, unreadable or no regular one. An empty file has no bytes.
  static MappedFile open(const std::filesystem::path& path, const std::string& expected);

  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

  // Gives back the memory of what was looked at; it is read again when it is looked at again.
  void release() const;

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

// Throws the DataError of a file that does not hold what it should.
[[noreturn]] void refuse_file(const std::filesystem::path& path, std::string found,
                              std::string expected,
                              std::string hint = "If it was copied or downloaded, do that again.");

}  // namespace sotto
