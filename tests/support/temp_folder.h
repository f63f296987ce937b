// A folder for one test, removed with all it holds when the test ends.
#pragma once

#include <filesystem>
#include <string_view>

namespace sotto::test {

class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Writes a file below the folder, and the folders it needs.
  void write(const std::filesystem::path& relative, std::string_view text) const;

 private:
  std::filesystem::path path_;
};

}  // namespace sotto::test
