// The files inside of a zip archive, where they are stored without compression: then they lie in
// the archive as they are and need not be copied. Archives and files beyond 4 GiB (zip64) are read.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>

namespace sotto {

using ZipEntries = std::map<std::string, std::span<const std::byte>, std::less<>>;

// Every file of an archive by its name. `archive` is the whole of it; `path` names it in errors.
// Throws DataError where it is cut short or broken, where a file is compressed or encrypted, where
// two have one name. Checksums are not looked at: that would read every byte.
ZipEntries read_zip(std::span<const std::byte> archive, const std::filesystem::path& path);

}  // namespace sotto
