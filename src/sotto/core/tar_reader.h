// The files inside of a tar archive (ustar, GNU's long names, pax headers), found by name without
// reading what lies between: archives are mapped, and a content is a view of the mapping. Only an
// index of 16 bytes a file is kept. What such archives can say at worst is a DataError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/mapped_file.h"

namespace sotto {

struct TarEntry {
  // As stored; "./" at its front is left off.
  std::string name;
  std::span<const std::byte> bytes;
};

// Calls `visit` for each regular file, in order, with where its headers begin. `path` is for
// errors. Folders, links and devices are passed over. Throws DataError.
void walk_tar(std::span<const std::byte> archive, const std::filesystem::path& path,
              const std::function<void(const TarEntry&, size_t)>& visit);

class TarFile {
 public:
  // Goes through all headers once. Throws DataError where the archive is missing, compressed, cut
  // short or broken, or has two files of one name.
  static TarFile open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  int64_t size() const { return static_cast<int64_t>(index_.size()); }

  // The content of a file, as long as this lives; none where there is no such file.
  std::optional<std::span<const std::byte>> find(std::string_view name) const;

 private:
  struct Place {
    uint64_t name_hash = 0;
    size_t offset = 0;
  };

  TarFile(std::filesystem::path path, MappedFile file);
  TarEntry entry_at(size_t offset) const;

  std::filesystem::path path_;
  MappedFile file_;
  // Sorted by hash, then by offset.
  std::vector<Place> index_;
};

}  // namespace sotto
