#include "cli/views/holders_view.h"

#include <fmt/format.h>

#include "sotto/core/units.h"
#include "sotto/device/memory_holders.h"
#include "sotto/report/table.h"

namespace sotto::cli {

std::string holders_table(const std::vector<device::GpuInfo>& gpus) {
  using report::Align;
  report::Table table(
      {{"GPU", Align::kRight}, {"held by"}, {"pid", Align::kRight}, {"memory", Align::kRight}});
  bool is_empty = true;
  for (const device::GpuInfo& gpu : gpus) {
    for (const device::MemoryHolder& holder : device::memory_holders(gpu)) {
      table.add_row({std::to_string(gpu.index), device::holder_name(holder),
                     holder.pid ? std::to_string(*holder.pid) : "",
                     holder.bytes ? format_bytes(*holder.bytes) : "unknown"});
      is_empty = false;
    }
    table.add_rule();
  }
  return is_empty ? std::string() : "\n" + table.to_string();
}

}  // namespace sotto::cli
