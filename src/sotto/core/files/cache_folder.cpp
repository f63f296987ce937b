#include "sotto/core/files/cache_folder.h"

#include <cstdlib>

namespace sotto {

std::filesystem::path cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return std::filesystem::path(cache) / "sotto";
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home == nullptr ? "." : home) / ".cache" / "sotto";
}

}  // namespace sotto
