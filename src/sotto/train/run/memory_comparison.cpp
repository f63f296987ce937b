#include "sotto/train/run/memory_comparison.h"

#include <cmath>
#include <string>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/train/run/monitor.h"

namespace sotto::train {

namespace {

using device::Category;
using device::CategoryBytes;

// Returns the requested settings that determine the bytes of a category.
std::string settings_of(Category category, const RunConfig& config) {
  const Arithmetic arithmetic = config.arithmetic();
  switch (category) {
    case Category::kWeights:
      return fmt::format("precision.compute: {}", name_of(arithmetic.compute, kComputes));
    case Category::kGradients:
      return fmt::format("precision.gradients: {}, and the frozen parts of the model",
                         name_of(arithmetic.gradients, kGradientTypes));
    case Category::kOptimizer:
      return fmt::format("precision.moments: {}, precision.remainder_bits: {}, optimizer.state: {}",
                         name_of(arithmetic.moments, optim::kMoments), arithmetic.remainder_bits,
                         name_of(config.optimizer.state, optim::kStateLocations));
    case Category::kActivations: return fmt::format("tier: {}", config.tier.to_string());
    case Category::kWorkspace:
    case Category::kData: break;
  }
  return "the limits of micro-batches";
}

std::string settings_of_host(const RunConfig& config) {
  return fmt::format("optimizer.state: {}, tier: {}",
                     name_of(config.optimizer.state, optim::kStateLocations),
                     config.tier.to_string());
}

// Whether the measured bytes differ by more than a fraction of the planned ones.
bool differs(int64_t planned, int64_t measured, double tolerance) {
  return static_cast<double>(std::abs(measured - planned)) >
         tolerance * static_cast<double>(planned);
}

[[noreturn]] void refuse_memory(const std::string& found, const std::string& settings) {
  throw InternalError({.attempted = "checking by measurement that the settings took effect",
                       .found = found,
                       .expected = fmt::format("what was planned with {}", settings),
                       .hint = "This is a bug in sotto; memory.json of the run has both."});
}

// Bytes by category at the same moment of both runs.
struct Moment {
  const char* name;
  const CategoryBytes& planned;
  const CategoryBytes& measured;
  // Fraction of the planned bytes.
  double tolerance = 0.0;
};

void check_moment(const Moment& moment, const RunConfig& config) {
  for (int i = 0; i < device::kNumCategories; ++i) {
    const auto category = static_cast<Category>(i);
    const int64_t planned = moment.planned[static_cast<size_t>(i)];
    const int64_t measured = moment.measured[static_cast<size_t>(i)];
    if (!differs(planned, measured, moment.tolerance)) continue;
    refuse_memory(fmt::format("{} {}: {} bytes instead of the planned {}",
                              device::name_of(category), moment.name, measured, planned),
                  settings_of(category, config));
  }
}

}  // namespace

MemoryComparison compare_memory(device::MemoryReport planned, device::MemoryReport measured) {
  const bool is_equal =
      planned.peak == measured.peak && planned.high_water == measured.high_water &&
      planned.at_peak == measured.at_peak && planned.peak_moment == measured.peak_moment &&
      planned.host_peak == measured.host_peak && planned.after_forward == measured.after_forward &&
      planned.after_backward == measured.after_backward;
  return {.planned = std::move(planned), .measured = std::move(measured), .is_equal = is_equal};
}

void check_settings_took_effect(const MemoryComparison& comparison, const RunConfig& config) {
  check_moment({.name = "after the first step",
                .planned = comparison.planned.live_by_category,
                .measured = comparison.measured.live_by_category},
               config);
  check_moment({.name = "at the peak of the first step",
                .planned = comparison.planned.at_peak,
                .measured = comparison.measured.at_peak,
                .tolerance = Monitor::kPlanTolerance},
               config);
  const int64_t planned = comparison.planned.host_peak, measured = comparison.measured.host_peak;
  if (differs(planned, measured, Monitor::kPlanTolerance))
    refuse_memory(
        fmt::format("the host's memory in the first step: {} bytes instead of the planned {}",
                    measured, planned),
        settings_of_host(config));
}

}  // namespace sotto::train
