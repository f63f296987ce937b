#include "cli/views/calibration_view.h"

#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cli/views/json_text.h"
#include "sotto/device/run_device.h"
#include "sotto/plan/calibration.h"
#include "sotto/report/table.h"

namespace sotto::cli {

namespace {

using kernels::Rates;
using kernels::Work;
using report::Align;
using report::Table;
using train::Compute;

bool is_half(Compute compute) {
  return compute == Compute::kBf16 || compute == Compute::kFp16;
}

double flops(const Rates& rates, Work work) {
  return rates.flops_per_s[static_cast<size_t>(work)];
}

Work work_of(Compute compute) {
  return is_half(compute) ? Work::kProduct16 : Work::kProduct32;
}

double products(const Rates& rates, Compute compute) {
  return flops(rates, work_of(compute));
}

double attention(const Rates& rates, Compute compute) {
  return flops(rates, is_half(compute) ? Work::kAttention16 : Work::kAttention32);
}

}  // namespace

void calibrate(const std::string& device, bool json) {
  const device::RunDevice opened = device::open_device(device, {}, /*is_deterministic=*/false);
  std::vector<std::pair<Compute, Rates>> all;
  for (const Compute compute : plan::computes_of(opened.target))
    all.emplace_back(compute, plan::calibrate(opened, compute));
  if (json) {
    nlohmann::ordered_json out = {{"format_version", 1}, {"device", opened.name}};
    for (const auto& [compute, rates] : all) {
      out["rates"].push_back(
          {{"arithmetic", name_of(compute, train::kComputes)},
           {"products_flops_per_s", products(rates, compute)},
           {"attention_flops_per_s", attention(rates, compute)},
           {"memory_bytes_per_s", rates.bytes_per_s},
           {"link_bytes_per_s", rates.link_bytes_per_s},
           {"seconds_per_call", rates.seconds_per_call[0]},
           {"seconds_per_product", rates.seconds_per_call[static_cast<size_t>(work_of(compute))]},
           {"launch_seconds", rates.launch_seconds}});
    }
    std::cout << json_text(out);
    return;
  }
  Table table({{opened.name},
               {"products", Align::kRight},
               {"attention", Align::kRight},
               {"memory", Align::kRight},
               {"host link", Align::kRight},
               {"a kernel", Align::kRight},
               {"launch", Align::kRight}});
  for (const auto& [compute, rates] : all) {
    table.add_row({std::string(name_of(compute, train::kComputes)),
                   fmt::format("{:.3f} TFLOP/s", 1e-12 * products(rates, compute)),
                   fmt::format("{:.3f} TFLOP/s", 1e-12 * attention(rates, compute)),
                   fmt::format("{:.0f} GB/s", 1e-9 * rates.bytes_per_s),
                   fmt::format("{:.1f} GB/s", 1e-9 * rates.link_bytes_per_s),
                   fmt::format("{:.1f} us", 1e6 * rates.seconds_per_call[0]),
                   fmt::format("{:.1f} us", 1e6 * rates.launch_seconds)});
  }
  std::cout << table.to_string() << "stored for plans on this device\n";
}

}  // namespace sotto::cli
