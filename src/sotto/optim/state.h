// The per-value state of AdamW: the moments, and the remainders of bf16 weights. It is stored on
// the device, or in host memory, from where it is copied to the device piecewise for an update and
// back. The values are bit-identical in both.
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

// Representation of the state of large parameters; that of all others is fp32.
struct StateForm {
  // Bits stored in addition to bf16 weights: 16, 8 or none. With fewer than 16, updates are rounded
  // stochastically.
  int remainder_bits = 16;
  Moments moments = Moments::kFp32;
};

enum class StateLocation { kDevice, kHost };

inline constexpr std::array kStateLocations = {Named{"device", StateLocation::kDevice},
                                               Named{"host", StateLocation::kHost}};

// Values first .. first + count of a range.
struct RangePart {
  size_t range = 0;
  int64_t first = 0;
  int64_t count = 0;
};

// The state of n values; arrays that a form does not have are undefined.
struct StateArrays {
  at::Tensor first_moment = {};   // [n] fp32, or uint8 codes
  at::Tensor second_moment = {};  // same form as first_moment
  at::Tensor first_scales = {};   // [n / 256] fp32, scales of codes
  at::Tensor second_scales = {};  // same form as first_scales
  at::Tensor remainder = {};      // [n] int16 or uint8, remainders of bf16 weights

  static constexpr size_t kNumArrays = 5;
  static const std::array<at::Tensor StateArrays::*, kNumArrays> kAll;
};
inline constexpr std::array<at::Tensor StateArrays::*, StateArrays::kNumArrays> StateArrays::kAll =
    {&StateArrays::first_moment, &StateArrays::second_moment, &StateArrays::first_scales,
     &StateArrays::second_scales, &StateArrays::remainder};

class OptimizerState {
 public:
  // Size of each of the three windows on the device through which state on the host passes.
  static constexpr int64_t kWindowBytes = int64_t{16} << 20;

  struct Placement {
    StateLocation location = StateLocation::kDevice;
    // For state on the host; must outlive this object.
    device::HostMemory* host = nullptr;
    int64_t window_bytes = kWindowBytes;
  };

  // Creates zeroed state for all trainable ranges.
  OptimizerState(const std::vector<nn::ParameterRange>& ranges, const StateForm& form,
                 const Placement& placement);

  // Calls `update` for parts of trainable ranges, in sequence, with their state on the device,
  // which it modifies. Where the state is on the host a part may be divided into several pieces, at
  // multiples of 256 values. Allocates nothing.
  using Update = std::function<void(size_t part, const RangePart& piece, StateArrays& state)>;
  void for_each(std::span<const RangePart> parts, const Update& update);

  // Returns the state in place, after all updates.
  StateArrays view(const RangePart& part) const;

 private:
  static constexpr size_t kNumArrays = StateArrays::kNumArrays;
  // One array of a range: one element per values_each values.
  struct ArrayForm {
    at::ScalarType type = at::kFloat;
    int64_t values_each = 1;
    // Byte that encodes zero in a moment, scale or remainder.
    uint8_t zero = 0;
    bool is_there = false;

    int64_t num_elements(int64_t values) const { return (values + values_each - 1) / values_each; }
    int64_t num_bytes(int64_t values) const;
  };
  using Forms = std::array<ArrayForm, kNumArrays>;

  // Device buffer for a piece of the state.
  struct Window {
    at::Tensor bytes;
    device::CopyMark is_free;
  };

  static Forms forms_of(const nn::ParameterRange& range, const StateForm& form);
  void allocate_on_host(int64_t size, size_t range, device::HostMemory& host);
  void make_windows(const std::vector<nn::ParameterRange>& ranges, int64_t window_bytes);
  // Returns the number of values of a range whose state fits into a window.
  int64_t values_per_window(size_t range) const;
  StateArrays in_window(const Window& window, const RangePart& piece) const;
  void copy(device::CopyLane& lane, const RangePart& piece, const StateArrays& here, bool to_host);
  void bring_and_update(size_t part, const RangePart& piece, const Update& update);

  bool is_on_host_;
  bool is_dry_;
  std::vector<Forms> forms_;         // one per range
  std::vector<StateArrays> arrays_;  // one per range; empty if frozen, and on the host in a dry run
  std::vector<device::HostBlock> blocks_;
  std::vector<Window> windows_;
  size_t next_window_ = 0;
  // Copy in both directions concurrently; declared after the buffers, so that copies end before
  // those are freed.
  std::unique_ptr<device::CopyLane> incoming_;
  std::unique_ptr<device::CopyLane> outgoing_;
  device::CopyMark all_out_;
};

}  // namespace sotto::optim
