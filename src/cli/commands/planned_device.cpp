#include "cli/commands/planned_device.h"

#include <algorithm>

#include "sotto/core/error.h"
#include "sotto/core/units.h"
#include "sotto/device/budget.h"
#include "sotto/device/cpu_level.h"
#include "sotto/device/device_table.h"
#include "sotto/device/host_info.h"
#include "sotto/plan/calibration.h"
#include "sotto/plan/device_rates.h"
#include "sotto/train/step/library_constant.h"

namespace sotto::cli {

namespace {

bool is_at_hand(const std::string& device) {
  return device == "cpu" || device == "cuda" || device.starts_with("cuda:");
}

// For state and inputs of layers; `auto`: three quarters of what is free here.
int64_t host_bytes_for(const MemorySize& budget) {
  const device::HostInfo host = device::read_host();
  if (budget.kind == MemorySize::Kind::kAuto) return host.free_bytes / 4 * 3;
  return device::resolve_budget(budget,
                                {.total_bytes = host.total_bytes, .free_bytes = host.free_bytes},
                                "the host", "--host-memory");
}

// The most that was measured in any arithmetic, which may be open; else what is allowed for.
int64_t known_constant(const device::RunDevice& device) {
  int64_t most = 0;
  for (const train::Compute compute : plan::computes_of(device.target))
    most = std::max(most, train::find_library_constant(device, compute).value_or(0));
  return most > 0 ? most : device::KnownDevice::kLibraryAllowance;
}

PlannedDevice device_elsewhere(const train::RunConfig& config) {
  const device::KnownDevice& known = device::find_device(config.device);
  const device::MemoryAvailable memory{.total_bytes = known.usable_bytes(),
                                       .free_bytes = known.usable_bytes()};
  return {.target = known.target(),
          .name = std::string(known.title),
          .is_elsewhere = true,
          .budget_bytes = device::resolve_budget(config.memory, memory, known.title),
          .constant_bytes = device::KnownDevice::kLibraryAllowance,
          // Of another host: what is free here says nothing of a size that is named.
          .host_bytes = config.host_memory.kind == MemorySize::Kind::kBytes
                            ? config.host_memory.bytes
                            : host_bytes_for(config.host_memory),
          .rates = [&known](train::Compute compute) { return plan::rates_of(known, compute); }};
}

}  // namespace

plan::PlanRequest PlannedDevice::request(const train::RunConfig& config,
                                         const plan::OpenChoices& open,
                                         const models::DataShape& shape) const {
  if (budget_bytes <= constant_bytes) {
    throw Infeasible(
        {.attempted =
             fmt::format("planning for a budget of {} on {}", format_bytes(budget_bytes), name),
         .found = fmt::format("the driver and its libraries alone take {}",
                              format_bytes(constant_bytes)),
         .expected = "a budget above that",
         .hint = fmt::format("Try --memory {}.", format_mebibytes(2 * constant_bytes))});
  }
  train::RunConfig there = config;
  // What the card will be called where it is.
  if (is_elsewhere) there.device = "cuda";
  return {.config = std::move(there),
          .open = open,
          .shape = shape,
          .target = target,
          .budget = {.bytes = budget_bytes - constant_bytes,
                     .host_bytes = host_bytes,
                     .constant_bytes = constant_bytes},
          .rates = rates};
}

PlannedDevice planned_device(const train::RunConfig& config) {
  if (!is_at_hand(config.device)) return device_elsewhere(config);
  const device::RunDevice device = device::open_device(config.device, {}, config.deterministic);
  return planned_device(config, device,
                        device::resolve_budget(config.memory, device.memory, device.name));
}

PlannedDevice planned_device(const train::RunConfig& config, const device::RunDevice& device,
                             int64_t budget_bytes) {
  PlannedDevice planned{.target = device.target,
                        .name = device.name,
                        .budget_bytes = budget_bytes,
                        .host_bytes = device::HostMemory::kUnlimited,
                        .rates = [device, budget_bytes](train::Compute of) {
                          return plan::rates_at_hand(device, of, budget_bytes);
                        }};
  if (device.target.is_cuda()) {
    planned.constant_bytes = known_constant(device);
    planned.host_bytes = host_bytes_for(config.host_memory);
  } else if (config.host_memory.kind != MemorySize::Kind::kAuto) {
    // As the run would have it, which refuses what could not take effect.
    planned.host_bytes =
        device::resolve_host_budget(config.host_memory, device, config.keeps_on_host());
  }
  return planned;
}

}  // namespace sotto::cli
