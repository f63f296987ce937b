// Downloads files with the program curl: a file exists completely or not at all. A partial download
// is kept as NAME.part and continued by the next call.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace sotto::data {

struct FetchRequest {
  // http, https or file.
  std::string url;
  // Destination folder; the file gets the last component of the URL as its name.
  std::filesystem::path folder;
  // Expected SHA-256 of its bytes, in hexadecimal; empty: not checked.
  std::string sha256 = {};
};

// Downloads the file unless it exists, and returns its path. `progress` receives the number of
// bytes present, a few times per second. Throws DataError on a failure of the server, the network,
// the disk or the checksum; ConfigError where curl is missing or the URL has no file name.
std::filesystem::path fetch_file(const FetchRequest& request,
                                 const std::function<void(int64_t)>& progress = {});

// Unpacks a tar file (of any compression that tar supports) or a zip file into its folder. Throws
// DataError where it is neither, broken, or the disk is full.
void unpack_file(const std::filesystem::path& file);

}  // namespace sotto::data
