// A run that says what would help where memory does not suffice for it.
#pragma once

#include "cli/commands/opened_device.h"
#include "sotto/train/run/trainer.h"

namespace sotto::cli {

// Prints the ladder where the configuration cannot fit. A plan that finds no way says it itself.
train::Trainer make_trainer(const train::RunRequest& request, train::RunEvents events,
                            const OpenedDevice& opened);

// Prints it where the run ends for want of memory; then it is as Trainer::run().
train::RunSummary run_or_advise(train::Trainer& trainer, const OpenedDevice& opened);

}  // namespace sotto::cli
