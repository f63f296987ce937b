// A whole file mapped into memory for reading: only pages that are accessed are read. It must not
// change while it is open.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace sotto {

class MappedFile {
 public:
  // Opens a file. `expected` describes it in errors: "a safetensors file". Throws DataError where
  // it is missing, unreadable or not a regular file. An empty file has no bytes.
  static MappedFile open(const std::filesystem::path& path, const std::string& expected);

  // Maps an open file, whose descriptor is no longer needed afterwards. `path` is for errors.
  static MappedFile of_descriptor(int descriptor, const std::filesystem::path& path,
                                  const std::string& expected);

  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

  // Releases the memory of accessed pages; they are read again at the next access.
  void release() const;

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

// Throws a DataError for a file that does not have the expected content.
[[noreturn]] void refuse_file(
    const std::filesystem::path& path, std::string found, std::string expected,
    std::string hint = "If it was copied or downloaded, copy or download it again.");

}  // namespace sotto
