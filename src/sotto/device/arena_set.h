// The arenas that serve LibTorch's allocator of one device type: the active one, and earlier ones
// that still have blocks.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "sotto/device/arena.h"

namespace sotto::device {

class ArenaSet {
 public:
  // Returns the active arena; null if there is no guard.
  std::shared_ptr<Arena> current() const;

  // Makes `arena` the active one and returns the previous one.
  std::shared_ptr<Arena> exchange(std::shared_ptr<Arena> arena);

  // Returns a block to its arena; false if it belongs to none.
  bool free(void* address);

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Arena> current_;
  // Every arena that still has blocks, including the current one.
  std::vector<std::shared_ptr<Arena>> arenas_;
};

}  // namespace sotto::device
