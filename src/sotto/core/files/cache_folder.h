// Where files lie that can be made again: XDG_CACHE_HOME/sotto, or ~/.cache/sotto.
#pragma once

#include <filesystem>

namespace sotto {

// It need not be there.
std::filesystem::path cache_folder();

}  // namespace sotto
