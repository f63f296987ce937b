// The arenas behind LibTorch's allocator of one device type: the one in force, and those before it
// that still have blocks.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "sotto/device/arena.h"

namespace sotto::device {

class ArenaSet {
 public:
  // Null where no guard lives.
  std::shared_ptr<Arena> current() const;

  // Makes `arena` the one in force and returns the one before it.
  std::shared_ptr<Arena> exchange(std::shared_ptr<Arena> arena);

  // Gives a block back to its arena; false where it is of none.
  bool free(void* address);

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Arena> current_;
  // Every arena that still has blocks, the current one too.
  std::vector<std::shared_ptr<Arena>> arenas_;
};

}  // namespace sotto::device
