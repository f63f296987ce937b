// The arena: places blocks in one region under a hard limit, counts them by category, and records
// the moment of its peak. The dry run (without memory) and the real run (with memory) use this same
// code, so the prediction of the one is the consumption of the other.
//
// A library call that allocates inside (ATen, oneDNN, cuBLAS) runs between begin_library_call and
// end_library_call: its declared bound is reserved first, which may throw; allocations inside are
// placed within that reservation, are counted, and never throw. (An out-of-memory error inside
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

// Memory use of the calls of one library function, compared with the declared bound.
struct LibraryUse {
  std::string name;
  int64_t num_calls = 0;
  // Values of the call that came closest to its bound, or exceeded it the most.
  int64_t declared_bytes = 0;
  int64_t measured_bytes = 0;
  // Number of calls that allocated more than declared, or left blocks alive: bugs in sotto.
  int64_t num_breaches = 0;
};

// Peak of live bytes during one moment.
struct MomentPeak {
  Moment moment;
  int64_t bytes = 0;
  CategoryBytes by_category = {};
};

struct MemoryReport {
  int64_t capacity = 0;
  int64_t live = 0;
  // Maximum of live bytes, with each block rounded up.
  int64_t peak = 0;
  // Required length of the region: the peak plus fragmentation.
  int64_t high_water = 0;
  // Peak of the separate host memory (host_memory.h), as far as the creator of the report knows it.
  int64_t host_peak = 0;
  // Live bytes of a training step between forward and backward of a micro-batch, the most of any;
  // and after the last backward, before the update. Filled in by the step.
  int64_t after_forward = 0;
  int64_t after_backward = 0;
  CategoryBytes live_by_category = {};
  CategoryBytes at_peak = {};
  Moment peak_moment;
  // The moments in order, if enabled by Arena::trace_moments.
  std::vector<MomentPeak> timeline;
  // Number of reservations, each of which can throw.
  int64_t num_reservations = 0;
  std::vector<LibraryUse> library_calls;
};

class Arena {
 public:
  // Larger than any device: for dry runs that determine the required memory.
  static constexpr int64_t kUnlimited = int64_t{1} << 44;

  Arena(RegionKind kind, int64_t capacity_bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Returns the address of a new block of bytes > 0, in the calling thread's category. Throws
  // OutOfMemory at the limit, except inside a library call.
  void* allocate(int64_t bytes);

  // Frees a block; returns false if the address does not belong to this arena.
  bool free(void* address);

  // Places the results of the call, one block for each size in `results`, then reserves
  // `bound_bytes` (0: the call allocates nothing else) and directs allocations into the
  // reservation. A request for exactly the bytes of a result gets that block, each block once.
  void begin_library_call(std::string_view name, int64_t bound_bytes,
                          std::span<const int64_t> results = {});
  void end_library_call();

  // Makes the n-th reservation from now (1: the next) throw OutOfMemory, once.
  void inject_failure(int64_t nth_reservation);

  MemoryReport report() const;
  int64_t live_bytes() const;
  int64_t num_blocks() const;

  // Starts a new history: peak, high-water mark and library calls from now on.
  void reset_peak();
  // Sets whether the history records a timeline from now on. It grows with each moment: meant for
  // one step.
  void trace_moments(bool traces);

 private:
  struct Block {
    int64_t offset = 0;  // in the region, or within its reservation; kOutside: separate memory
    int64_t bytes = 0;
    Category category = Category::kWorkspace;
    int64_t reservation = kNone;
    void* address = nullptr;
    int64_t asked_bytes = 0;  // for a result of a library call: bytes before rounding
  };
  struct Reservation {
    std::string name;
    Block block;           // empty if nothing was declared
    int64_t overflow = 0;  // live bytes beyond the declared bound
    int64_t measured = 0;
    bool ended = false;
    Placement inside;
    std::vector<Block> results;  // placed, but not requested yet
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
  std::unordered_map<void*, Block> blocks_;  // by address; without reservations
  std::map<int64_t, Reservation> reservations_;
  std::optional<int64_t> active_call_;
  int64_t next_reservation_ = 0;
  int64_t fail_at_ = 0;  // value of num_reservations that throws; 0: none
  MemoryReport history_;
  bool traces_ = false;
};

}  // namespace sotto::device
