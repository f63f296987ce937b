// Finds files in a tar archive (ustar, GNU long names, pax headers) by name without reading the
// content of the others. Only an index of 16 bytes per file is kept. Archives are read, not mapped:
// an archive that is truncated or becomes unreadable while in use is a DataError, as is any
// malformed header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sotto/core/files/input_file.h"

namespace sotto {

struct TarEntry {
  // As stored, without a leading "./".
  std::string name;
  // Offset of the content in the archive, and its size in bytes.
  uint64_t offset = 0;
  uint64_t size = 0;
};

// Calls `visit` for each regular file, in order, with the offset of its headers. `path` is for
// errors. Folders, links and devices are skipped. Throws DataError.
void walk_tar(std::span<const std::byte> archive, const std::filesystem::path& path,
              const std::function<void(const TarEntry&, size_t)>& visit);

class TarFile {
 public:
  // Reads all headers once. Throws DataError where the archive is missing, compressed, truncated or
  // broken, or has two files of the same name.
  static TarFile open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  int64_t size() const { return static_cast<int64_t>(index_.size()); }

  // Returns the content of a file, valid while this object lives; std::nullopt if there is no such
  // file. Throws DataError where the archive cannot be read any more.
  std::optional<FilePart> find(std::string_view name) const;

 private:
  struct Entry {
    uint64_t name_hash = 0;
    size_t offset = 0;
  };

  explicit TarFile(InputFile file) : file_(std::move(file)) {}
  TarEntry entry_at(size_t offset) const;

  InputFile file_;
  // Sorted by hash, then by offset.
  std::vector<Entry> index_;
};

}  // namespace sotto
