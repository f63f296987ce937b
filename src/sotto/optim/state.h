// What AdamW keeps for each value besides its weight: the moments, and what bf16 weights leave out.
// It lies on the device, or in host memory, from where it comes part by part for an update and goes
// back. The numbers are the same to the bit.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "sotto/core/config/options.h"
#include "sotto/device/copy_lane.h"
#include "sotto/device/host_memory.h"
#include "sotto/nn/parameters.h"

namespace sotto::optim {

enum class Moments { kFp32, k8Bit };

inline constexpr std::array kMoments = {Named{"fp32", Moments::kFp32},
                                        Named{"8bit", Moments::k8Bit}};

// What the state of large parameters is made of; that of all others is fp32.
struct StateForm {
  // Of weights in bf16, beside them: 16, 8 or none. Fewer than 16 are rounded at random.
  int remainder_bits = 16;
  Moments moments = Moments::kFp32;
};

enum class StatePlace { kDevice, kHost };

inline constexpr std::array kStatePlaces = {Named{"device", StatePlace::kDevice},
                                            Named{"host", StatePlace::kHost}};

// Values first .. first + count of a range.
struct RangePart {
  size_t range = 0;
  int64_t first = 0;
  int64_t count = 0;
};

// The state of n values; what a form does not have is undefined.
struct StateArrays {
  at::Tensor first_moment = {};   // [n] fp32, or uint8 codes
  at::Tensor second_moment = {};  // as the first
  at::Tensor first_scales = {};   // [n / 256] fp32, of codes
  at::Tensor second_scales = {};  // as the first
  at::Tensor remainder = {};      // [n] int16 or uint8, what bf16 weights leave out

  static constexpr size_t kNumArrays = 5;
  static const std::array<at::Tensor StateArrays::*, kNumArrays> kAll;
};
inline constexpr std::array<at::Tensor StateArrays::*, StateArrays::kNumArrays> StateArrays::kAll =
    {&StateArrays::first_moment, &StateArrays::second_moment, &StateArrays::first_scales,
     &StateArrays::second_scales, &StateArrays::remainder};

class OptimizerState {
 public:
  // Of the state on the host: what lies on the device at once, in three turns.
  static constexpr int64_t kWindowBytes = int64_t{16} << 20;

  struct Placement {
    StatePlace place = StatePlace::kDevice;
    // For state on the host; must outlive this.
    device::HostMemory* host = nullptr;
    int64_t window_bytes = kWindowBytes;
  };

  // Zeroed state for all ranges that train.
  OptimizerState(const std::vector<nn::ParameterRange>& ranges, const StateForm& form,
                 const Placement& placement);

  // Calls `update` for parts of ranges that train, one after the other, with their state on the
  // device, which it changes. Where the state is on the host a part may come in several pieces, cut
  // at multiples of 256 values. Allocates nothing.
  using Update = std::function<void(size_t part, const RangePart& piece, StateArrays& state)>;
  void for_each(std::span<const RangePart> parts, const Update& update);

  // Where it lies, as it is after all updates.
  StateArrays view(const RangePart& part) const;

 private:
  static constexpr size_t kNumArrays = StateArrays::kNumArrays;
  // One array of a range: an element for so many values. None where there are no bytes.
  struct ArrayForm {
    at::ScalarType type = at::kFloat;
    int64_t values_each = 1;
    // The bytes of a moment, scale or remainder of zero.
    uint8_t zero = 0;
    bool is_there = false;

    int64_t num_elements(int64_t values) const { return (values + values_each - 1) / values_each; }
    int64_t num_bytes(int64_t values) const;
  };
  using Forms = std::array<ArrayForm, kNumArrays>;

  // Room on the device that a piece of the state comes to.
  struct Window {
    at::Tensor bytes;
    device::CopyMark is_free;
  };

  static Forms forms_of(const nn::ParameterRange& range, const StateForm& form);
  void allocate_on_host(int64_t size, size_t range, device::HostMemory& host);
  void make_windows(const std::vector<nn::ParameterRange>& ranges, int64_t window_bytes);
  // Values of a range whose state a window holds.
  int64_t values_a_window(size_t range) const;
  StateArrays in_window(const Window& window, const RangePart& piece) const;
  void copy(device::CopyLane& lane, const RangePart& piece, const StateArrays& here, bool to_host);
  void bring_and_update(size_t part, const RangePart& piece, const Update& update);

  bool is_on_host_;
  bool is_dry_;
  std::vector<Forms> forms_;         // of each range
  std::vector<StateArrays> arrays_;  // of each range; empty for a frozen one, and on the host dry
  std::vector<device::HostBlock> blocks_;
  std::vector<Window> windows_;
  size_t next_window_ = 0;
  // Both ways at once; behind the buffers, so that copies have ended before those go.
  std::unique_ptr<device::CopyLane> incoming_;
  std::unique_ptr<device::CopyLane> outgoing_;
  device::CopyMark all_out_;
};

}  // namespace sotto::optim
