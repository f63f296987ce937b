#include "cli/commands/run_options.h"

#include <CLI/CLI.hpp>

#include "cli/views/train_view.h"
#include "sotto/plan/run/planned_rehearsal.h"

namespace sotto::cli {

void add_run_options(CLI::App& command, plan::RunDescription& run) {
  command.add_option("--config", run.config, "Configuration, YAML or JSON");
  command.add_option("--set", run.settings, "Override a setting: key.sub=value (repeatable)")
      ->allow_extra_args(false);
  command.add_option("--model", run.model, "Preset, folder of Hugging Face, or id in its cache");
  command.add_option("--init-from", run.init_from,
                     "Weights to begin with: a checkpoint, a run, a folder of Hugging Face or an "
                     "id in its cache (init_from)");
  command.add_option("--train", run.train, "Manifest to train on, or text (data.train)");
  command.add_option("--dev", run.dev, "The same to evaluate on (data.dev)");
  command.add_option("--memory", run.memory, "Budget: 8GiB, 12GB, 90% (of what is free) or auto");
  command.add_option("--host-memory", run.host_memory,
                     "Host memory in addition, for a GPU or what is kept there: 2GiB or auto");
  command.add_option("--device", run.device, "What to run on: cpu, cuda or cuda:N");
}

void add_trial_options(CLI::App& command, TrialOptions& options) {
  add_run_options(command, options.run);
  command.add_option("--pretend-device", options.pretended,
                     "Give the GPU the memory and abilities of another: t4, l4, rtx4090 ...");
  command.add_flag("--json", options.json, "Print the result as JSON");
}

std::unique_ptr<train::Rehearsal> make_rehearsal(const TrialOptions& options) {
  return plan::make_rehearsal(options.run, options.pretended, log_note, show_reasons);
}

}  // namespace sotto::cli
