#include "cli/views/cards_view.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/views/json_text.h"
#include "sotto/core/units.h"
#include "sotto/device/device_table.h"
#include "sotto/report/table.h"

namespace sotto::cli {

using device::KnownDevice;
using report::Align;
using report::Table;

std::string cards_text() {
  Table table({{"card"},
               {"GB", Align::kRight},
               {"usable", Align::kRight},
               {"capability", Align::kRight},
               {"SMs", Align::kRight},
               {"bf16"},
               {"fp32", Align::kRight},
               {"tf32", Align::kRight},
               {"16 bits", Align::kRight},
               {"memory", Align::kRight},
               {"link", Align::kRight},
               {"measured"}});
  for (const KnownDevice& card : device::known_devices()) {
    const device::PublishedRates& rates = card.rates;
    table.add_row({std::string(card.name), std::to_string(card.nominal_gb),
                   fmt::format("{} GiB", card.usable_gib),
                   fmt::format("{}.{}", card.capability / 10, card.capability % 10),
                   std::to_string(card.num_sms), card.target().has_bf16() ? "yes" : "no",
                   fmt::format("{}", rates.fp32_tera),
                   rates.tf32_tera > 0.0 ? fmt::format("{}", rates.tf32_tera) : "no",
                   fmt::format("{}", rates.half_tera), fmt::format("{}", rates.memory_giga),
                   fmt::format("{}", rates.link_giga), card.is_measured ? "yes" : "no"});
  }
  return table.to_string() +
         fmt::format(
             "Rates: TFLOP/s of matrix products without sparsity; GB/s of memory and of the link, "
             "one way.\n"
             "Rates, capability and SMs are from NVIDIA's data sheets. Cards with bf16 have "
             "FlashAttention.\n"
             "Usable: free memory of an idle card. Measured: compared with a real card.\n"
             "Plans assume the fractions of these rates that were measured on an H200, and {} for "
             "the\n"
             "driver and its libraries.\n",
             format_bytes(KnownDevice::kLibraryAllowance));
}

std::string cards_json() {
  nlohmann::ordered_json json = {{"format_version", 1}};
  for (const KnownDevice& card : device::known_devices()) {
    const device::PublishedRates& rates = card.rates;
    json["cards"].push_back({{"name", card.name},
                             {"title", card.title},
                             {"nominal_gb", card.nominal_gb},
                             {"usable_bytes", card.usable_bytes()},
                             {"capability", card.capability},
                             {"multiprocessors", card.num_sms},
                             {"has_bf16", card.target().has_bf16()},
                             {"has_flash_attention", card.target().has_flash_attention()},
                             {"fp32_flops_per_s", 1e12 * rates.fp32_tera},
                             {"tf32_flops_per_s", 1e12 * rates.tf32_tera},
                             {"half_flops_per_s", 1e12 * rates.half_tera},
                             {"memory_bytes_per_s", 1e9 * rates.memory_giga},
                             {"link_bytes_per_s", 1e9 * rates.link_giga},
                             {"library_allowance_bytes", KnownDevice::kLibraryAllowance},
                             {"is_measured", card.is_measured}});
  }
  return json_text(json);
}

}  // namespace sotto::cli
