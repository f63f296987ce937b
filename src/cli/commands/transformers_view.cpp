#include "cli/commands/transformers_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <span>
#include <string>

#include "cli/views/json_text.h"
#include "sotto/core/error.h"
#include "sotto/core/files/atomic_folder.h"
#include "sotto/core/units.h"
#include "sotto/plan/training_arguments.h"
#include "sotto/report/table.h"

namespace sotto::cli {

namespace {

using report::Align;
using report::Table;

plan::TransformersChoice choose(const plan::MadePlan& made) {
  const train::RunConfig& config = made.plan.best.config;
  if (config.effective_batch.kind != data::EffectiveBatch::Kind::kUtterances) {
    throw ConfigError(
        {.attempted = "writing TrainingArguments",
         .found = fmt::format("effective_batch {}", config.effective_batch.to_string()),
         .expected = "a number of utterances, which is what transformers counts"});
  }
  const std::vector<float> lengths = made.source->lengths();
  const train::Compute compute = config.arithmetic().compute;
  const plan::TransformersRequest request{
      .budget_bytes = made.facts.budget_bytes,
      .effective_batch = config.effective_batch.utterances,
      .longest_s = double{*std::ranges::max_element(lengths)},
      .is_half = compute == train::Compute::kBf16 || compute == train::Compute::kFp16};
  if (const auto choice = plan::choose_transformers(config.model, request)) return *choice;
  const plan::PaddedTraining least{.utterances = 1,
                                   .seconds = request.longest_s,
                                   .accumulation = request.effective_batch,
                                   .is_half = request.is_half,
                                   .checkpoints = true,
                                   .has_8bit_moments = true};
  const int64_t bytes = plan::with_reserve(plan::estimate_transformers(config.model, least).peak);
  throw ConfigError(
      {.attempted = "planning the run for transformers",
       .found = fmt::format(
           "it needs about {} there, even one utterance at a time with checkpointing and "
           "8-bit moments",
           format_bytes(bytes)),
       .expected = fmt::format("at most {}", format_bytes(request.budget_bytes)),
       .hint = "The run fits in sotto: omit --for."});
}

std::string to_text(const plan::MadePlan& made, const plan::TransformersChoice& choice) {
  const plan::TransformersMemory& memory = choice.memory;
  const plan::PaddedTraining& training = choice.training;
  Table table({{"transformers would take, estimated"}, {"", Align::kRight}});
  table.add_row({"weights, fp32", format_bytes(memory.weights)});
  table.add_row({"gradients, fp32", format_bytes(memory.gradients)});
  table.add_row({training.has_8bit_moments ? "moments, 8-bit" : "moments, fp32",
                 format_bytes(memory.moments)});
  table.add_row({fmt::format("{} utterances padded to {:.1f} s{}", training.utterances,
                             training.seconds, training.checkpoints ? ", checkpointing" : ""),
                 format_bytes(memory.micro_batch)});
  table.add_rule();
  table.add_row({"allocated at the peak", format_bytes(memory.peak)});
  table.add_row(
      {"with allocator and driver overhead", format_bytes(plan::with_reserve(memory.peak))});
  table.add_row({"budget", format_bytes(made.facts.budget_bytes)});
  table.add_row({"sotto takes, exactly",
                 format_bytes(made.plan.best.fit.worst.high_water + made.facts.constant_bytes)});
  return table.to_string();
}

}  // namespace

void plan_for_transformers(const plan::MadePlan& made, const std::filesystem::path& folder,
                           bool json) {
  const plan::TransformersChoice choice = choose(made);
  const train::RunConfig& config = made.plan.best.config;
  const int64_t step = config.effective_batch.utterances;
  const int64_t steps_per_epoch = (made.source->num_items() + step - 1) / step;
  const plan::TrainingArguments arguments =
      plan::training_arguments(config, choice, steps_per_epoch);
  std::filesystem::create_directories(folder);
  const std::filesystem::path path = folder / "training_arguments.json";
  write_text_synced(path, json_text(arguments.json));
  if (json) {
    const nlohmann::ordered_json result = {
        {"format_version", 1},
        {"training_arguments", arguments.json},
        {"estimated_bytes", choice.memory.peak},
        {"estimated_with_reserve_bytes", plan::with_reserve(choice.memory.peak)},
        {"notes", arguments.notes}};
    std::cout << json_text(result);
    return;
  }
  std::cout << to_text(made, choice);
  for (const std::string& note : arguments.notes) std::cout << note << "\n";
  std::cout << fmt::format("{}: TrainingArguments(**json.load(open(...)))\n", path.string());
}

}  // namespace sotto::cli
