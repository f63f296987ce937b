// The arena: places blocks in one region under a hard limit, counts them by category, and knows the
// moment of its peak. The dry run (over nothing) and the real run (over memory) go through this
// same code; therefore what the one predicts is what the other takes.
//
// A library call that allocates inside (ATen, oneDNN, cuBLAS) runs between begin_library_call and
// end_library_call: its declared bound is reserved first, which may throw; what it allocates inside
// is placed within that reservation, is counted, and never throws. (An out-of-memory error inside
// ATen's matrix product would not reach us: ATen catches it and turns oneDNN off for the rest of
// the process.)
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sotto/device/memory_scope.h"
#include "sotto/device/placement.h"
#include "sotto/device/region.h"

namespace sotto::device {

// Bytes by category, indexed by Category.
using CategoryBytes = std::array<int64_t, kNumCategories>;

// What the calls of one library function took, against what was declared for them.
struct LibraryUse {
  std::string name;
  int64_t num_calls = 0;
  // Of the call that came nearest to its bound, or went farthest beyond it.
  int64_t declared_bytes = 0;
  int64_t measured_bytes = 0;
  // Calls that allocated more than declared, or left blocks alive behind them: faults of ours.
  int64_t num_breaches = 0;
};

// The most that was alive in one moment.
struct MomentPeak {
  Moment moment;
  int64_t bytes = 0;
};

struct MemoryReport {
  int64_t capacity = 0;
  int64_t live = 0;
  // Most bytes alive at once, rounded up block by block.
  int64_t peak = 0;
  // What the region had to be long: the peak and what placement wasted.
  int64_t high_water = 0;
  // Most of the host memory besides (host_memory.h), as far as who made the report knows of it.
  int64_t host_peak = 0;
  CategoryBytes live_by_category = {};
  CategoryBytes at_peak = {};
  Moment peak_moment;
  // The moments one after the other, where Arena::trace_moments asked for them.
  std::vector<MomentPeak> timeline;
  // Points at which memory was asked for, each of which can throw.
  int64_t num_reservations = 0;
  std::vector<LibraryUse> library_calls;
};

class Arena {
 public:
  // Longer than any device: for dry runs that ask how much would be needed.
  static constexpr int64_t kUnlimited = int64_t{1} << 44;

  Arena(RegionKind kind, int64_t capacity_bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Address of a new block of bytes > 0, in the calling thread's category. Throws OutOfMemory at
  // the limit, except inside a library call.
  void* allocate(int64_t bytes);

  // Gives a block back; false where the address is none of this arena's.
  bool free(void* address);

  // Places what the call returns, one block for each of `results` in bytes, then reserves
  // `bound_bytes` (0: the call allocates nothing else) and directs allocations into the
  // reservation. A request of just the bytes of a result gets that block, each once.
  void begin_library_call(std::string_view name, int64_t bound_bytes,
                          std::span<const int64_t> results = {});
  void end_library_call();

  // Makes the n-th reservation from now (1: the next) throw OutOfMemory, once.
  void inject_failure(int64_t nth_reservation);

  MemoryReport report() const;
  int64_t num_blocks() const;

  // Begins a new history: peak, high-water mark and library calls of what happens from now on.
  void reset_peak();
  // Whether the history has a timeline from now on. It grows with each moment: for one step.
  void trace_moments(bool traces);

 private:
  struct Block {
    int64_t offset = 0;  // in the region, or within its reservation; kOutside: memory of its own
    int64_t bytes = 0;
    Category category = Category::kWorkspace;
    int64_t reservation = kNone;
    void* address = nullptr;
    int64_t asked_bytes = 0;  // of a result of a library call, before rounding
  };
  struct Reservation {
    std::string name;
    Block block;           // of no bytes where nothing was declared
    int64_t overflow = 0;  // live bytes beyond the declared ones
    int64_t measured = 0;
    bool ended = false;
    Placement inside;
    std::vector<Block> results;  // placed, and not asked for yet
  };
  static constexpr int64_t kOutside = -1;
  static constexpr int64_t kNone = -1;

  Block place(int64_t bytes, Category category, std::string_view purpose);
  void place_results(std::span<const int64_t> sizes, std::vector<Block>& results);
  Block place_inside_call(int64_t bytes);
  void remove(const Block& block);
  void remove_inside_call(const Block& block);
  void close(std::map<int64_t, Reservation>::iterator reservation);
  void count(const Block& block);
  [[noreturn]] void throw_out_of_memory(int64_t bytes, std::string_view purpose,
                                        bool injected) const;

  mutable std::mutex mutex_;
  Region region_;
  Placement placement_;
  std::unordered_map<void*, Block> blocks_;  // by address; reservations apart
  std::map<int64_t, Reservation> reservations_;
  std::optional<int64_t> active_call_;
  int64_t next_reservation_ = 0;
  int64_t fail_at_ = 0;  // value of num_reservations that throws; 0: none
  MemoryReport history_;
  bool traces_ = false;
};

}  // namespace sotto::device
