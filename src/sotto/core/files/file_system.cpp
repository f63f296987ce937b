#include "sotto/core/files/file_system.h"

#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace sotto {

namespace {

struct Weak {
  int64_t magic;
  std::string_view name;
};

// Magic numbers of linux/magic.h, and of drivers that define their own.
constexpr std::array kWeak = {
    Weak{0x65735546, "FUSE"},   // s3fs, rclone, sshfs, gcsfuse, virtiofs
    Weak{0x01021997, "9p"},     // Windows drives under WSL 2, shares
    Weak{0x53464846, "drvfs"},  // Windows drives under WSL 1
    Weak{0x4d44, "vfat"},      Weak{0x2011bab0, "exfat"}, Weak{0x5346544e, "ntfs"},
    Weak{0x7366746e, "ntfs3"}, Weak{0x6969, "nfs"},       Weak{0xff534d42, "cifs"},
    Weak{0xfe534d42, "smb2"},  Weak{0x517b, "smb"},       Weak{0x786f4256, "vboxsf"},
    Weak{0xbacbacbc, "hgfs"},  Weak{0x73757245, "coda"},  Weak{0x5346414f, "afs"}};

}  // namespace

FileSystem file_system_of(int64_t magic) {
  // Some systems report it as a signed 32-bit integer.
  const auto* found = std::ranges::find(kWeak, magic & 0xffffffff, &Weak::magic);
  if (found == kWeak.end()) return {};
  return {.name = std::string(found->name), .renames_at_once = false};
}

FileSystem file_system_at(const std::filesystem::path& path) {
  struct statfs status{};
  for (std::filesystem::path at = std::filesystem::absolute(path);; at = at.parent_path()) {
    if (statfs(at.c_str(), &status) == 0)
      return file_system_of(static_cast<int64_t>(status.f_type));
    if (at == at.root_path()) return {};
  }
}

}  // namespace sotto
