#include "cli/commands/advice.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "cli/commands/planned_run.h"
#include "cli/views/console.h"
#include "sotto/core/error.h"

namespace sotto::cli {

namespace {

// Whatever happens here, the reason of the run's end stays.
void advise(const train::RunConfig& config, const OpenedDevice& opened, bool is_resumed) {
  try {
    print_error(ladder_text(config, opened, is_resumed));
  } catch (const std::exception& error) {
    spdlog::warn("what would help could not be worked out: {}", error.what());
  }
}

}  // namespace

train::Trainer make_trainer(const train::RunRequest& request, train::RunEvents events,
                            const OpenedDevice& opened) {
  try {
    return train::Trainer(request, std::move(events));
  } catch (const Infeasible&) {
    if (!request.decide) advise(request.config, opened, request.resume_from.has_value());
    throw;
  }
}

train::RunSummary run_or_advise(train::Trainer& trainer, const OpenedDevice& opened) {
  try {
    return trainer.run();
  } catch (const OutOfMemory&) {
    advise(trainer.config(), opened, trainer.plan().first_step > 1);
    throw;
  }
}

}  // namespace sotto::cli
