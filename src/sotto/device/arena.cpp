#include "sotto/device/arena.h"

#include <fmt/format.h>

#include <algorithm>

#include "sotto/core/error.h"
#include "sotto/core/units.h"

namespace sotto::device {

namespace {

size_t index_of(Category category) {
  return static_cast<size_t>(category);
}

// Returns the entry of `name`; adds it if there is none.
LibraryUse& entry_of(std::vector<LibraryUse>& uses, const std::string& name) {
  const auto found = std::find_if(uses.begin(), uses.end(),
                                  [&](const LibraryUse& use) { return use.name == name; });
  if (found != uses.end()) return *found;
  uses.push_back({.name = name, .declared_bytes = 0, .measured_bytes = 0});
  return uses.back();
}

}  // namespace

Arena::Arena(RegionKind kind, int64_t capacity_bytes)
    : region_(kind, Placement::rounded(std::max<int64_t>(capacity_bytes, 1))),
      placement_(capacity_bytes) {
  history_.capacity = placement_.capacity();
}

Arena::~Arena() {
  for (const auto& [address, block] : blocks_) {
    if (block.offset == kOutside) {
      region_.give_back_outside(address);
    } else if (block.reservation == kNone) {
      region_.give_back(address);
    }
  }
  for (const auto& [id, reservation] : reservations_) {
    if (reservation.block.bytes > 0) region_.give_back(reservation.block.address);
  }
}

void* Arena::allocate(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const Category category = current_category();
  const Block block =
      active_call_ ? place_inside_call(bytes) : place(bytes, category, name_of(category));
  blocks_.emplace(block.address, block);
  return block.address;
}

bool Arena::free(void* address) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) return false;
  const Block block = found->second;
  blocks_.erase(found);
  if (block.reservation == kNone) {
    remove(block);
  } else {
    remove_inside_call(block);
  }
  return true;
}

void Arena::begin_library_call(std::string_view name, int64_t bound_bytes,
                               std::span<const int64_t> results) {
  const std::lock_guard lock(mutex_);
  SOTTO_ASSERT(!active_call_, "library call {} begins inside another", name);
  std::vector<Block> placed;
  Block block;
  try {
    place_results(results, placed);
    if (bound_bytes > 0) block = place(bound_bytes, Category::kWorkspace, name);
  } catch (...) {
    for (const Block& result : placed) remove(result);
    throw;
  }
  active_call_ = next_reservation_++;
  reservations_.emplace(*active_call_, Reservation{.name = std::string(name),
                                                   .block = block,
                                                   .inside = Placement(block.bytes),
                                                   .results = std::move(placed)});
}

void Arena::end_library_call() {
  const std::lock_guard lock(mutex_);
  SOTTO_ASSERT(active_call_.has_value(), "no library call to end");
  const auto call = reservations_.find(*active_call_);
  active_call_.reset();
  Reservation& reservation = call->second;
  reservation.ended = true;

  LibraryUse& use = entry_of(history_.library_calls, reservation.name);
  const int64_t slack = reservation.block.bytes - reservation.measured;
  if (use.num_calls == 0 || slack < use.declared_bytes - use.measured_bytes) {
    use.declared_bytes = reservation.block.bytes;
    use.measured_bytes = reservation.measured;
  }
  ++use.num_calls;
  const bool left_blocks = reservation.inside.num_blocks() > 0 || reservation.overflow > 0;
  // A result that was not requested: the call does not allocate what was declared.
  const bool kept_results = !reservation.results.empty();
  for (const Block& result : reservation.results) remove(result);
  reservation.results.clear();
  if (slack < 0 || left_blocks || kept_results) ++use.num_breaches;
  // Blocks that the call left alive keep its reservation until they are freed.
  if (!left_blocks) close(call);
}

void Arena::inject_failure(int64_t nth_reservation) {
  const std::lock_guard lock(mutex_);
  SOTTO_ASSERT(nth_reservation > 0, "{}", nth_reservation);
  fail_at_ = history_.num_reservations + nth_reservation;
}

MemoryReport Arena::report() const {
  const std::lock_guard lock(mutex_);
  MemoryReport report = history_;
  report.live = placement_.live();
  report.high_water = placement_.high_water();
  return report;
}

int64_t Arena::live_bytes() const {
  const std::lock_guard lock(mutex_);
  return placement_.live();
}

int64_t Arena::num_blocks() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(blocks_.size());
}

void Arena::reset_peak() {
  const std::lock_guard lock(mutex_);
  placement_.reset_high_water();
  fail_at_ = fail_at_ > history_.num_reservations ? fail_at_ - history_.num_reservations : 0;
  history_ = {.capacity = placement_.capacity(),
              .peak = placement_.live(),
              .live_by_category = history_.live_by_category,
              .at_peak = history_.live_by_category,
              .peak_moment = current_moment(),
              .timeline = {},
              .library_calls = {}};
}

void Arena::trace_moments(bool traces) {
  const std::lock_guard lock(mutex_);
  traces_ = traces;
}

Arena::Block Arena::place(int64_t bytes, Category category, std::string_view purpose) {
  if (++history_.num_reservations == fail_at_) {
    fail_at_ = 0;
    throw_out_of_memory(bytes, purpose, /*injected=*/true);
  }
  const std::optional<int64_t> offset = placement_.allocate(bytes);
  if (!offset) throw_out_of_memory(bytes, purpose, /*injected=*/false);
  const Block block{.offset = *offset,
                    .bytes = Placement::rounded(bytes),
                    .category = category,
                    .address = region_.take(*offset, bytes)};
  count(block);
  return block;
}

void Arena::place_results(std::span<const int64_t> sizes, std::vector<Block>& results) {
  const Category category = current_category();
  for (const int64_t bytes : sizes) {
    results.push_back(place(bytes, category, name_of(category)));
    results.back().asked_bytes = bytes;
  }
}

Arena::Block Arena::place_inside_call(int64_t bytes) {
  Reservation& call = reservations_.at(*active_call_);
  const auto result = std::find_if(call.results.begin(), call.results.end(),
                                   [&](const Block& block) { return block.asked_bytes == bytes; });
  if (result != call.results.end()) {
    const Block block = *result;
    call.results.erase(result);
    return block;
  }
  Block block{.bytes = Placement::rounded(bytes), .reservation = *active_call_};
  if (const std::optional<int64_t> offset = call.inside.allocate(bytes)) {
    block.offset = *offset;
    block.address = static_cast<std::byte*>(call.block.address) + *offset;
  } else {
    // Beyond the declared bound: allocated anyway, outside of the region, and reported as a breach.
    block.offset = kOutside;
    block.address = region_.take_outside(block.bytes);
    call.overflow += block.bytes;
  }
  call.measured = std::max(call.measured, call.inside.live() + call.overflow);
  return block;
}

void Arena::remove(const Block& block) {
  region_.give_back(block.address);
  placement_.free(block.offset);
  history_.live_by_category[index_of(block.category)] -= block.bytes;
}

void Arena::remove_inside_call(const Block& block) {
  const auto call = reservations_.find(block.reservation);
  Reservation& reservation = call->second;
  if (block.offset == kOutside) {
    region_.give_back_outside(block.address);
    reservation.overflow -= block.bytes;
  } else {
    reservation.inside.free(block.offset);
  }
  const bool empty = reservation.inside.num_blocks() == 0 && reservation.overflow == 0;
  if (reservation.ended && empty) close(call);
}

void Arena::close(std::map<int64_t, Reservation>::iterator reservation) {
  const Block block = reservation->second.block;
  reservations_.erase(reservation);
  if (block.bytes > 0) remove(block);
}

void Arena::count(const Block& block) {
  history_.live_by_category[index_of(block.category)] += block.bytes;
  if (placement_.live() > history_.peak) {
    history_.peak = placement_.live();
    history_.at_peak = history_.live_by_category;
    history_.peak_moment = current_moment();
  }
  if (!traces_) return;
  std::vector<MomentPeak>& timeline = history_.timeline;
  if (timeline.empty() || timeline.back().moment != current_moment())
    timeline.push_back({.moment = current_moment()});
  if (placement_.live() > timeline.back().bytes) {
    timeline.back().bytes = placement_.live();
    timeline.back().by_category = history_.live_by_category;
  }
}

void Arena::throw_out_of_memory(int64_t bytes, std::string_view purpose, bool injected) const {
  const std::string attempted = fmt::format("allocating {} for {} ({})", format_bytes(bytes),
                                            purpose, current_moment().to_string());
  if (injected) throw OutOfMemory({.attempted = attempted, .found = "a failure was injected here"});
  throw OutOfMemory(
      {.attempted = attempted,
       .found = fmt::format("the budget of {} has {} in use and no gap above {}",
                            format_bytes(placement_.capacity()), format_bytes(placement_.live()),
                            format_bytes(placement_.largest_gap())),
       .expected = "room for it within the budget",
       .hint = "Raise --memory, or process less at a time: max_frames in training, --window in "
               "sotto transcribe."});
}

}  // namespace sotto::device
