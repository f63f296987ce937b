#include "sotto/plan/run/planned_device.h"

#include <algorithm>
#include <utility>

#include "sotto/device/budget.h"
#include "sotto/device/device_table.h"
#include "sotto/plan/calibration.h"
#include "sotto/plan/device_rates.h"
#include "sotto/train/step/library_constant.h"

namespace sotto::plan {

namespace {

bool is_local(const std::string& device) {
  return device == "cpu" || device == "cuda" || device.starts_with("cuda:");
}

// Returns the maximum measured in any arithmetic, since it may be open; else an assumed value.
int64_t known_constant(const device::RunDevice& device) {
  if (!device.target.is_cuda()) return 0;
  int64_t most = 0;
  for (const train::Compute compute : computes_of(device.target))
    most = std::max(most, train::find_library_constant(device, compute).value_or(0));
  return most > 0 ? most : device::KnownDevice::kLibraryAllowance;
}

// Host memory of another machine: free memory here is irrelevant to a size given in bytes.
int64_t host_bytes_elsewhere(const train::RunConfig& config, const device::Target& target) {
  if (config.host_memory.kind == MemorySize::Kind::kBytes) return config.host_memory.bytes;
  return device::resolve_host_budget(config.host_memory, target, config.keeps_on_host());
}

PlannedDevice device_elsewhere(const train::RunConfig& config) {
  const device::KnownDevice& known = device::find_device(config.device);
  const device::MemoryAvailable memory{.total_bytes = known.usable_bytes(),
                                       .free_bytes = known.usable_bytes()};
  const device::Target target = known.target();
  return {.target = target,
          .is_elsewhere = true,
          .budget = {.bytes = device::resolve_budget(config.memory, memory, known.title),
                     .host_bytes = host_bytes_elsewhere(config, target),
                     .device_name = std::string(known.title)},
          .constant_bytes = device::KnownDevice::kLibraryAllowance,
          .rates = [&known](train::Compute compute) { return rates_of(known, compute); }};
}

}  // namespace

PlanRequest PlannedDevice::request(const train::RunConfig& config, const OpenChoices& open,
                                   const models::DataShape& shape) const {
  train::RunConfig there = config;
  // The card's device name in its own machine.
  if (is_elsewhere) there.device = "cuda";
  return {.config = std::move(there),
          .open = open,
          .shape = shape,
          .target = target,
          .budget = train::divide_budget(budget, constant_bytes),
          .rates = rates};
}

PlannedDevice planned_device(const train::RunConfig& config, const std::string& pretended) {
  if (!is_local(config.device) && pretended.empty()) return device_elsewhere(config);
  return planned_device(
      config, device::OpenedDevice(config.memory, config.device, pretended, config.deterministic));
}

PlannedDevice planned_device(const train::RunConfig& config, const device::OpenedDevice& opened) {
  const device::RunDevice& device = opened.device;
  return {.target = device.target,
          .budget = {.bytes = opened.budget_bytes,
                     .host_bytes = device::resolve_host_budget(config.host_memory, device.target,
                                                               config.keeps_on_host()),
                     .device_name = device.name},
          .constant_bytes = known_constant(device),
          .rates = [opened](train::Compute compute) {
            return known_rates(opened.device, compute, opened.budget_bytes);
          }};
}

}  // namespace sotto::plan
