// The files inside of a tar archive (ustar, GNU's long names, pax headers), found by name without
// reading what lies between. Only an index of 16 bytes per file is kept. Archives are read, not
// mapped: one that is cut or cannot be read while it is used is a DataError, as is all that such
// archives can say at worst.
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
  // As stored; "./" at its front is left off.
  std::string name;
  // Where its content lies in the archive, and how many bytes it has.
  uint64_t offset = 0;
  uint64_t size = 0;
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

  const std::filesystem::path& path() const { return file_.path(); }
  int64_t size() const { return static_cast<int64_t>(index_.size()); }

  // Where the content of a file lies, as long as this lives; none where there is no such file.
  // Throws DataError where the archive cannot be read any more.
  std::optional<FilePart> find(std::string_view name) const;

 private:
  struct Place {
    uint64_t name_hash = 0;
    size_t offset = 0;
  };

  explicit TarFile(InputFile file) : file_(std::move(file)) {}
  TarEntry entry_at(size_t offset) const;

  InputFile file_;
  // Sorted by hash, then by offset.
  std::vector<Place> index_;
};

}  // namespace sotto
