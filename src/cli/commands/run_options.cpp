#include "cli/commands/run_options.h"

#include <CLI/CLI.hpp>

#include "cli/commands/command_line.h"
#include "cli/views/train_view.h"
#include "sotto/plan/run/planned_rehearsal.h"

namespace sotto::cli {

void add_run_options(CLI::App& command, plan::RunDescription& run) {
  command.add_option("--config", run.config, "Configuration, YAML or JSON");
  command.add_option("--set", run.settings, "Override a setting: key.sub=value (repeatable)")
      ->allow_extra_args(false);
  command.add_option("--model", run.model,
                     "Preset, Hugging Face folder, id in the local cache, or .nemo archive");
  command.add_option("--init-from", run.init_from,
                     "Initial weights: a checkpoint, a run, a Hugging Face folder, an id in the "
                     "local cache or a .nemo archive (init_from)");
  command.add_option("--train", run.train, "Manifest or text to train on (data.train)");
  command.add_option("--dev", run.dev, "Manifest or text to evaluate on (data.dev)");
  add_memory_option(command, run.memory);
  command.add_option("--host-memory", run.host_memory,
                     "Additional host memory for a GPU run: 2GiB or auto");
  command.add_option("--device", run.device, "Device: cpu, cuda or cuda:N");
}

void add_pretend_option(CLI::App& command, std::string& pretended) {
  command.add_option("--pretend-device", pretended,
                     "Restrict the GPU to the memory and features of another: t4, l4, rtx4090 ...");
}

void add_trial_options(CLI::App& command, TrialOptions& options) {
  add_run_options(command, options.run);
  add_pretend_option(command, options.pretended);
  command.add_flag("--json", options.json, "Print the result as JSON");
}

std::unique_ptr<train::Rehearsal> make_rehearsal(const TrialOptions& options) {
  return plan::make_rehearsal(options.run, options.pretended, log_note, show_reasons);
}

}  // namespace sotto::cli
