// Location of files that can be recreated: XDG_CACHE_HOME/sotto, or ~/.cache/sotto.
#pragma once

#include <filesystem>

namespace sotto {

// Returns the path of the cache folder, which need not exist.
std::filesystem::path cache_folder();

}  // namespace sotto
