// Steps that are run dry and then for real, in an arena of exactly the bytes that the dry run asked
// for.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "sotto/data/batch/micro_batch.h"
#include "sotto/decode/decoding.h"
#include "sotto/device/run_device.h"
#include "sotto/device/torch_memory.h"
#include "sotto/train/step/dry_run.h"

namespace sotto::test {

inline void expect_equal_memory(const device::MemoryReport& planned,
                                const device::MemoryReport& measured, const std::string& what) {
  EXPECT_EQ(planned.peak, measured.peak) << what;
  EXPECT_EQ(planned.high_water, measured.high_water) << what;
  EXPECT_EQ(planned.at_peak, measured.at_peak) << what;
  EXPECT_EQ(planned.peak_moment, measured.peak_moment)
      << what << ": " << planned.peak_moment.to_string() << " and "
      << measured.peak_moment.to_string();
  EXPECT_EQ(planned.num_reservations, measured.num_reservations) << what;
  EXPECT_EQ(planned.live, measured.live) << what;
  for (const device::LibraryUse& use : measured.library_calls)
    EXPECT_EQ(use.num_breaches, 0) << use.name << ", " << what;
}

// Recognises examples dry and for real, in an arena that has exactly the bytes that the dry run
// asked for.
inline void expect_planned_recognition(const train::RunConfig& config,
                                       const models::DataShape& shape,
                                       const std::vector<data::Example>& examples, bool has_times) {
  train::DryRun dry(config, shape, train::DryRun::Purpose::kRecognition);
  dry.set_decoding(config.decode, has_times);
  const device::MemoryReport planned = dry.recognise(examples);
  const auto arena = std::make_shared<device::Arena>(device::RegionKind::kHost, planned.high_water);
  const device::ArenaGuard guard(at::kCPU, arena);
  const auto model = train::make_model(config, shape, at::kCPU, /*trains=*/false);
  arena->reset_peak();
  device::HostMemory host(at::kCPU);
  device::StagingBuffer staging(host);
  std::vector<int64_t> indices(examples.size());
  std::iota(indices.begin(), indices.end(), int64_t{0});
  decode::DecodingOptions decoding = decode::dry_decoding(config.decode);
  decoding.has_times = has_times;
  decode::find_labels(model->recognise(data::make_micro_batch(
                          examples, indices, staging, {.decoder = model->outline().decoder})),
                      decoding);
  const device::MemoryReport measured = arena->report();
  const std::string what =
      fmt::format("{}, beam {}, times {}", name_of(config.numerics, train::kNumerics),
                  config.decode.beam, has_times);
  for (const device::LibraryUse& use : measured.library_calls)
    EXPECT_EQ(use.num_breaches, 0) << use.name << ", " << what;
  EXPECT_EQ(planned.live, measured.live) << what;
  EXPECT_LE(measured.peak, planned.peak) << what;
  EXPECT_GE(static_cast<double>(measured.peak), 0.95 * static_cast<double>(planned.peak)) << what;
  // A beam is not always full, and an output not as long as it may be.
  if (config.decode.beam > 1 || has_times) return;
  EXPECT_EQ(planned.peak, measured.peak) << what;
  EXPECT_EQ(planned.high_water, measured.high_water) << what;
  EXPECT_EQ(planned.at_peak, measured.at_peak) << what;
}

// Runs steps dry and for real, in an arena that has exactly the bytes that the dry run asked for.
inline void expect_exact_steps(const train::RunConfig& config, const models::DataShape& shape,
                               const std::vector<std::vector<data::Example>>& steps,
                               train::StepSettings settings, const device::RunDevice& device = {}) {
  train::DryRun dry(config, shape, train::DryRun::Purpose::kTraining, device.target);
  int64_t capacity = 0;
  std::vector<device::MemoryReport> planned;
  const int64_t first_step = settings.step;
  for (const auto& examples : steps) {
    planned.push_back(dry.run_step(examples, settings));
    capacity = std::max(capacity, planned.back().high_water);
    ++settings.step;
  }
  settings.step = first_step;
  const device::TargetScope target(device.target);
  const auto arena = std::make_shared<device::Arena>(
      device.target.is_cuda() ? device::RegionKind::kCuda : device::RegionKind::kHost, capacity);
  const device::ArenaGuard guard(device.torch.type(), arena);
  train::Learner learner(config, shape, device.torch);
  int64_t host_peak = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    arena->reset_peak();
    EXPECT_TRUE(train::run_step(learner, steps[i], settings).is_updated);
    expect_equal_memory(
        planned[i], arena->report(),
        fmt::format("{}, step {} at tier {}", name_of(config.numerics, train::kNumerics),
                    settings.step, settings.tier.to_string()));
    host_peak = std::max(host_peak, planned[i].host_peak);
    EXPECT_EQ(learner.host.peak_bytes(), host_peak) << "of the host, step " << settings.step;
    ++settings.step;
  }
}

}  // namespace sotto::test
