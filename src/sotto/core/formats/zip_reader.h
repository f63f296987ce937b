// The files of a zip archive that are stored without compression, which can be used without a copy.
// Archives and files beyond 4 GiB (zip64) are supported.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>

namespace sotto {

using ZipEntries = std::map<std::string, std::span<const std::byte>, std::less<>>;

// Returns every file of an archive by name. `archive` is the whole archive; `path` names it in
// errors. Throws DataError where it is truncated or broken, where a file is compressed or
// encrypted, or where two have the same name. Checksums are not verified: that would read every
// byte.
ZipEntries read_zip(std::span<const std::byte> archive, const std::filesystem::path& path);

}  // namespace sotto
