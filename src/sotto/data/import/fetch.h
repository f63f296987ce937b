// Files from the network, by the program curl: a file is there whole or not at all. What was loaded
// before a connection broke is kept as NAME.part and continued by the next call.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace sotto::data {

struct FetchRequest {
  // http, https or file.
  std::string url;
  // Where the file goes, under the last name in the address.
  std::filesystem::path folder;
  // What its bytes must give, in hexadecimal; empty: they are not checked.
  std::string sha256 = {};
};

// Loads the file unless it is there, and returns its path. `progress` hears the bytes that are
// there, a few times a second. Throws DataError where the server, the network, the disk or the
// checksum says no; ConfigError where curl is missing or the address has no name of a file.
std::filesystem::path fetch_file(const FetchRequest& request,
                                 const std::function<void(int64_t)>& progress = {});

// Unpacks a tar file (of any compression that tar knows) or a zip file into its folder. Throws
// DataError where it is neither, broken, or the disk is full.
void unpack_file(const std::filesystem::path& file);

}  // namespace sotto::data
