#include "sotto/data/manifest_paths.h"

#include <system_error>

namespace sotto::data {

namespace {

namespace fs = std::filesystem;

fs::path with_links_followed(const fs::path& path) {
  std::error_code failed;
  const fs::path real = fs::weakly_canonical(path, failed);
  return failed ? path : real;
}

}  // namespace

ManifestPaths::ManifestPaths(const fs::path& folder)
    : folder_(fs::absolute(folder / "").lexically_normal()),
      real_folder_(with_links_followed(folder_) / "") {}

std::string ManifestPaths::name_of(const fs::path& file) {
  const fs::path absolute = fs::absolute(file).lexically_normal();
  const fs::path below = absolute.lexically_relative(folder_);
  if (!below.empty() && *below.begin() != "..") return below.string();
  // Behind a link ".." leads elsewhere than the text says.
  if (absolute.parent_path() != last_parent_) {
    last_parent_ = absolute.parent_path();
    last_real_parent_ = with_links_followed(last_parent_);
  }
  const fs::path real = last_real_parent_ / absolute.filename();
  const fs::path relative = real.lexically_relative(real_folder_);
  auto shared = ++real.begin();
  const bool shares_more_than_root = shared != real.end() && real_folder_.has_relative_path() &&
                                     *shared == *++real_folder_.begin();
  return shares_more_than_root && !relative.empty() ? relative.string() : real.string();
}

}  // namespace sotto::data
