// A small disk in memory that a test can fill, where the system lets it mount one.
#pragma once

#include <sys/mount.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace sotto::test {

class SmallDisk {
 public:
  // Mounts it at a folder that is made.
  SmallDisk(const std::filesystem::path& path, int64_t num_bytes) : path_(path) {
    std::filesystem::create_directories(path);
    const std::string size = "size=" + std::to_string(num_bytes);
    is_mounted_ = mount("tmpfs", path.c_str(), "tmpfs", 0, size.c_str()) == 0;
  }
  ~SmallDisk() {
    if (is_mounted_) umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  // False where this user may not mount: the test is then to be skipped.
  bool is_mounted() const { return is_mounted_; }
  static constexpr const char* kSkipped = "this user may not mount a disk in memory";

  int64_t free_bytes() const {
    struct statvfs status{};
    statvfs(path_.c_str(), &status);
    return static_cast<int64_t>(status.f_bavail * status.f_frsize);
  }

  // Leaves so many bytes free.
  void fill(int64_t left_free) const {
    std::ofstream(ballast(), std::ios::app)
        << std::string(static_cast<size_t>(std::max<int64_t>(0, free_bytes() - left_free)), 'x');
  }
  void make_room() const { std::filesystem::remove(ballast()); }

 private:
  std::filesystem::path ballast() const { return path_ / "ballast"; }

  std::filesystem::path path_;
  bool is_mounted_ = false;
};

}  // namespace sotto::test
