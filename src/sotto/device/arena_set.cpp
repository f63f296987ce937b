#include "sotto/device/arena_set.h"

#include <algorithm>

namespace sotto::device {

std::shared_ptr<Arena> ArenaSet::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

std::shared_ptr<Arena> ArenaSet::exchange(std::shared_ptr<Arena> arena) {
  const std::lock_guard lock(mutex_);
  const bool known = std::find(arenas_.begin(), arenas_.end(), arena) != arenas_.end();
  if (arena && !known) arenas_.push_back(arena);
  std::swap(current_, arena);
  const bool idle = arena && arena != current_ && arena->num_blocks() == 0;
  if (idle) std::erase(arenas_, arena);
  return arena;
}

bool ArenaSet::free(void* address) {
  const std::lock_guard lock(mutex_);
  const auto owner =
      std::find_if(arenas_.begin(), arenas_.end(),
                   [&](const std::shared_ptr<Arena>& arena) { return arena->free(address); });
  if (owner == arenas_.end()) return false;
  // The last tensor that outlived its guard was freed.
  if (*owner != current_ && (*owner)->num_blocks() == 0) arenas_.erase(owner);
  return true;
}

}  // namespace sotto::device
