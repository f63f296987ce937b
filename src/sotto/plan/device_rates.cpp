#include "sotto/plan/device_rates.h"

namespace sotto::plan {

namespace {

using kernels::Work;

// Fractions of the published rates, measured on an H200 with the steps of docs/results.md.
constexpr double kOfProducts = 0.70;
constexpr double kOfAttention16 = 0.18;
constexpr double kOfAttention32 = 0.5;
constexpr double kOfMemory = 0.36;
constexpr double kOfLink = 0.80;
// Minimum time of a kernel; of a product, which fills the device in waves; and of a launch by the
// host.
constexpr double kSmallestSeconds = 1.5e-6;
constexpr double kSmallestProductSeconds = 8e-6;
constexpr double kLaunchSeconds = 6e-6;

}  // namespace

kernels::Rates rates_of(const device::KnownDevice& device, train::Compute compute) {
  const device::PublishedRates& published = device.rates;
  const bool uses_tf32 = compute == train::Compute::kTf32 && published.tf32_tera > 0.0;
  const double fp32 = 1e12 * (uses_tf32 ? published.tf32_tera : published.fp32_tera);
  const double half = 1e12 * published.half_tera;
  kernels::Rates rates{.bytes_per_s = kOfMemory * 1e9 * published.memory_giga,
                       .link_bytes_per_s = kOfLink * 1e9 * published.link_giga,
                       .launch_seconds = kLaunchSeconds};
  rates.seconds_per_call.fill(kSmallestProductSeconds);
  rates.seconds_per_call[static_cast<size_t>(Work::kElementwise)] = kSmallestSeconds;
  const auto set = [&](Work work, double flops) {
    rates.flops_per_s[static_cast<size_t>(work)] = flops;
  };
  set(Work::kElementwise, 1e12 * published.fp32_tera);
  set(Work::kProduct32, kOfProducts * fp32);
  set(Work::kProduct16, kOfProducts * half);
  set(Work::kAttention32, kOfAttention32 * 1e12 * published.fp32_tera);
  set(Work::kAttention16, kOfAttention16 * half);
  return rates;
}

}  // namespace sotto::plan
