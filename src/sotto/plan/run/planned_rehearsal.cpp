#include "sotto/plan/run/planned_rehearsal.h"

#include <optional>

#include "sotto/device/opened_device.h"
#include "sotto/plan/run/decided_run.h"

namespace sotto::plan {

std::unique_ptr<train::Rehearsal> make_rehearsal(
    const RunDescription& run, const std::string& pretended_device, const train::Note& noted,
    const std::function<void(const std::vector<Reason>&)>& decided) {
  const ReadConfig read = read_config(run, name_config(run, noted));
  train::RunConfig config = read.config;
  check_has_data(config);
  const device::OpenedDevice opened(config.memory, config.device, pretended_device,
                                    config.deterministic);
  if (read.open.any()) {
    const std::unique_ptr<train::RunData> data = train::open_run_data(config, std::nullopt, {});
    DecidedRun run_decided = decide_open(config, read.open, opened, *data);
    decided(run_decided.reasons);
    config = std::move(run_decided.config);
  }
  return std::make_unique<train::Rehearsal>(config, opened.device, opened.budget_bytes);
}

}  // namespace sotto::plan
