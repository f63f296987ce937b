#include "cli/views/train_view.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <string_view>

#include "cli/views/console.h"
#include "sotto/core/files/log.h"
#include "sotto/core/units.h"
#include "sotto/report/table.h"

namespace sotto::cli {

namespace {

using device::Category;
using report::Align;
using report::Table;

// Categories of memory that a training step uses on this device.
constexpr std::array kCategories = {Category::kWeights,   Category::kGradients,
                                    Category::kOptimizer, Category::kActivations,
                                    Category::kWorkspace, Category::kData};

int64_t at_peak(const device::MemoryReport& report, Category category) {
  return report.at_peak[static_cast<size_t>(category)];
}

void print(const std::string& text) {
  print_error(text);
  add_to_kept_log(text);
}

// Formats as "45 s", "12 min", "3.2 h": no more precise than an estimate is.
std::string rough_duration(double seconds) {
  if (seconds < 90.0) return fmt::format("{:.0f} s", seconds);
  if (seconds < 5400.0) return fmt::format("{:.0f} min", seconds / 60.0);
  if (seconds < 172'800.0) return fmt::format("{:.1f} h", seconds / 3600.0);
  return fmt::format("{:.1f} days", seconds / 86'400.0);
}

// Formats as "212/300 MiB", "512 MiB/7.45 GiB".
std::string against(int64_t bytes, int64_t budget, std::string_view of = "/") {
  std::string part = format_bytes(bytes);
  const std::string whole = format_bytes(budget);
  const size_t unit = part.find(' ');
  if (whole.ends_with(part.substr(unit))) part.resize(unit);
  return fmt::format("{}{}{}", part, of, whole);
}

std::string limit_text(const MicroBatchLimits& limits) {
  if (limits.max_frames == MicroBatchLimits::kUnlimited) {
    return limits.max_utterances == MicroBatchLimits::kUnlimited
               ? "a whole step in one micro-batch"
               : fmt::format("at most {} utterances per micro-batch", limits.max_utterances);
  }
  return fmt::format("at most {} frames per micro-batch", limits.max_frames);
}

std::string budget_text(const train::RunPlan& plan) {
  if (plan.constant_bytes == 0) return format_bytes(plan.budget_bytes);
  return fmt::format("{}, of which the driver and its libraries take {}",
                     format_bytes(plan.budget_bytes), format_bytes(plan.constant_bytes));
}

std::string stages_text(const train::RunPlan& plan, bool is_text) {
  Table table({{"stage"},
               {"samples"},
               {is_text ? "rows" : "utterances", Align::kRight},
               {"updates", Align::kRight},
               {"per epoch", Align::kRight}});
  int64_t number = 0;
  for (const train::Stage& stage : plan.stages)
    table.add_row({fmt::format("{}", ++number), stage.name, fmt::format("{}", stage.num_samples),
                   fmt::format("{}", stage.num_steps), fmt::format("{}", stage.steps_per_epoch)});
  return table.to_string();
}

// Describes the weights with which a stage begins; empty for the first.
std::string weights_text(const train::StageStart& start, bool is_text) {
  if (start.weights_of_step == 0) return "";
  if (!start.metric)
    return fmt::format(", from the weights of step {}, which were not evaluated",
                       start.weights_of_step);
  const std::string metric = is_text ? fmt::format("perplexity {:.2f}", *start.metric)
                                     : fmt::format("WER {:.2f} %", 100.0 * *start.metric);
  return fmt::format(", from the best weights of the stage before: step {}, {}",
                     start.weights_of_step, metric);
}

}  // namespace

void show_reasons(const std::vector<plan::Reason>& reasons) {
  Table table({{"decided"}, {"value"}, {"because"}});
  for (const plan::Reason& reason : reasons) {
    table.add_row({reason.key, reason.value, reason.brief});
    spdlog::debug("{}: {}: {}", reason.key, reason.value, reason.why);
  }
  print(table.to_string() + "\n");
}

void log_note(const std::string& text) {
  spdlog::info("{}", text);
}

void show_shared_device(const device::RunDevice& device) {
  spdlog::warn("{}: {} of {} are free; held by {}", device.name,
               format_bytes(device.memory.free_bytes), format_bytes(device.memory.total_bytes),
               device::describe_holders(device.holders));
}

std::string describe(const decode::ErrorCounts& counts) {
  return fmt::format("{:.2f} % (ins {}, del {}, sub {} of {})", 100.0 * counts.rate(),
                     counts.insertions, counts.deletions, counts.substitutions,
                     counts.reference_length);
}

std::string describe(const train::Evaluation& evaluation) {
  if (evaluation.task->is_text()) {
    return fmt::format("perplexity {:.2f} (loss {:.4f} per token)", evaluation.perplexity(),
                       evaluation.loss);
  }
  return fmt::format("WER {}, CER {:.2f} %, loss {:.4f}", describe(evaluation.words),
                     100.0 * evaluation.characters.rate(), evaluation.loss);
}

std::string metric_text(const train::Evaluation& evaluation, double value) {
  return evaluation.task->is_text() ? fmt::format("{:.2f}", value)
                                    : fmt::format("{:.2f} %", 100.0 * value);
}

std::string describe(const Amount& amount) {
  if (amount.num_tokens == 0) return format_duration(amount.audio_seconds) + " of audio";
  return fmt::format("{} tokens", amount.num_tokens);
}

std::string describe_speed(const Amount& amount, double seconds) {
  if (amount.num_tokens == 0)
    return fmt::format("{}x real time", format_digits(amount.audio_seconds / seconds));
  return fmt::format("{} tokens/s",
                     format_digits(static_cast<double>(amount.num_tokens) / seconds));
}

std::string describe(const TrainProgress& progress) {
  const auto [audio_seconds, num_tokens] = progress.amount;
  const std::string speed =
      num_tokens == 0
          ? fmt::format("{}x real time", format_digits(audio_seconds / progress.seconds))
          : fmt::format("{} tokens/s",
                        format_digits(static_cast<double>(num_tokens) / progress.seconds));
  return fmt::format("loss {:.4f} rate {:.1e} {} {} {} left", progress.loss, progress.rate, speed,
                     against(progress.used_bytes, progress.budget_bytes),
                     rough_duration(progress.seconds_left));
}

train::RunEvents TrainView::events() {
  return {
      .preparing =
          [this](std::string_view what, int64_t done, int64_t total) {
            bar_.show(done >> 20, total >> 20, fmt::format("MiB, {}", what));
          },
      .planned = [this](const train::RunPlan& plan) { show_plan(plan); },
      .audited = [this](int64_t epoch,
                        const train::EpochAudit& audit) { show_audit(epoch, audit); },
      .staged = [this](const train::StageStart& start) { show_stage(start); },
      .compared = [this](const train::MemoryComparison& both) { show_comparison(both); },
      .stepped = [this](const train::StepReport& report) { show_step(report); },
      .restarted =
          [this](const train::Restart& restart) {
            bar_.clear();
            spdlog::warn("step {}: out of memory; retrying with {}", restart.step,
                         limit_text(restart.limits));
          },
      .evaluated = [this](
                       int64_t step,
                       const train::Evaluation& evaluation) { show_evaluation(step, evaluation); },
      .saved =
          [this](const std::filesystem::path& path) {
            bar_.clear();
            spdlog::debug("saved {}", path.string());
          },
      .released = [this](int64_t step,
                         const train::ReleasedCaches& released) { show_release(step, released); },
      .warned =
          [this](const std::string& message) {
            bar_.clear();
            spdlog::warn("{}", message);
          },
      .noted =
          [this](const std::string& message) {
            bar_.clear();
            spdlog::info("{}", message);
          }};
}

void TrainView::show_plan(const train::RunPlan& plan) {
  Table table({{"plan"}, {}});
  table.add_row({"parameters",
                 fmt::format("{:.2f} million", static_cast<double>(plan.num_parameters) / 1e6)});
  is_text_ = plan.num_tokens > 0;
  table.add_row(
      {"data", is_text_ ? fmt::format("{} rows, {} tokens", plan.num_utterances, plan.num_tokens)
                        : fmt::format("{} utterances, {}; {} skipped", plan.num_utterances,
                                      format_duration(plan.audio_seconds), plan.num_skipped)});
  table.add_row({"updates", fmt::format("{} ({} per epoch), from step {}", plan.total_steps,
                                        plan.steps_per_epoch, plan.first_step)});
  table.add_row({"device", fmt::format("{}, {}", plan.device_name,
                                       name_of(plan.numerics, train::kNumerics))});
  table.add_row({"budget", budget_text(plan)});
  table.add_row({"largest", fmt::format("{} in {}", format_bytes(plan.fit.worst.high_water),
                                        plan.fit.worst.peak_moment.to_string())});
  table.add_row({"limit", limit_text(plan.fit.limits)});
  print(table.to_string());
  if (!plan.stages.empty()) print("\n" + stages_text(plan, is_text_) + "\n");
  start_ = std::chrono::steady_clock::now();
  first_step_ = plan.first_step;
  budget_bytes_ = plan.budget_bytes;
  constant_bytes_ = plan.constant_bytes;
}

void TrainView::show_stage(const train::StageStart& start) {
  finish_epoch();
  bar_.clear();
  spdlog::info("stage {} of {}: {} ({} {}), steps {} to {}{}", start.stage + 1, start.num_stages,
               start.name, start.num_samples, is_text_ ? "rows" : "utterances", start.first_step,
               start.first_step + start.num_steps - 1, weights_text(start, is_text_));
}

void TrainView::show_audit(int64_t epoch, const train::EpochAudit& audit) {
  bar_.clear();
  spdlog::info("epoch {}: {} steps, largest peak {} at step {}", epoch + 1, audit.num_steps,
               against(constant_bytes_ + audit.fit.worst.high_water, budget_bytes_, " of "),
               audit.worst_step);
}

void TrainView::show_comparison(const train::MemoryComparison& comparison) {
  Table table(
      {{"memory of the first step"}, {"planned", Align::kRight}, {"measured", Align::kRight}});
  for (const Category category : kCategories) {
    table.add_row({std::string(device::name_of(category)),
                   fmt::format("{}", at_peak(comparison.planned, category)),
                   fmt::format("{}", at_peak(comparison.measured, category))});
  }
  table.add_rule();
  table.add_row({"peak, in bytes", fmt::format("{}", comparison.planned.peak),
                 fmt::format("{}", comparison.measured.peak)});
  print("\n" + table.to_string());
  print(comparison.is_equal ? "equal to the byte\n\n" : "NOT equal: this is a bug in sotto\n\n");
}

void TrainView::show_step(const train::StepReport& report) {
  if (report.epoch != epoch_) {
    finish_epoch();
    epoch_ = report.epoch;
  }
  if (!report.is_empty()) {
    ++epoch_steps_;
    epoch_loss_ += report.result.loss;
  }
  epoch_seconds_ += report.seconds;
  epoch_audio_ += report.audio_seconds;
  if (is_text_) epoch_tokens_ += report.result.num_frames;
  const TrainProgress progress = progress_of(report);
  if (report.step % log_every_ == 0) {
    bar_.clear();
    spdlog::info(
        "step {}/{}  loss {:.4f}  rate {:.2e}  {} {}, {} micro-batch{}  memory {} peak {} reserved "
        "{}  {} "
        "left",
        report.step, report.total_steps, report.result.loss, report.result.rate,
        report.num_utterances, is_text_ ? "rows" : "utterances", report.result.num_micro_batches,
        report.result.num_micro_batches == 1 ? "" : "es", format_bytes(report.live_bytes),
        format_bytes(report.peak_bytes), format_bytes(report.reserved_bytes),
        rough_duration(progress.seconds_left));
  }
  bar_.show(report.step, report.total_steps, describe(progress));
  if (report.step == report.total_steps) finish_epoch();
}

TrainProgress TrainView::progress_of(const train::StepReport& report) const {
  // Evaluations and checkpoints are included in the estimate of the remaining time.
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  const auto done = static_cast<double>(report.step - first_step_ + 1);
  const auto left = static_cast<double>(report.total_steps - report.step);
  return {.loss = report.result.loss,
          .rate = report.result.rate,
          .amount = {.audio_seconds = epoch_audio_, .num_tokens = epoch_tokens_},
          .seconds = epoch_seconds_,
          .used_bytes = constant_bytes_ + report.peak_bytes,
          .budget_bytes = budget_bytes_,
          .seconds_left = elapsed.count() / done * left};
}

void TrainView::show_release(int64_t step, const train::ReleasedCaches& released) {
  bar_.clear();
  spdlog::info("step {}: {}", step, released.to_string());
}

void TrainView::finish_epoch() {
  if (epoch_steps_ == 0) return;
  bar_.clear();
  const Amount amount{.audio_seconds = epoch_audio_, .num_tokens = epoch_tokens_};
  spdlog::info("epoch {}: mean loss {:.4f}, {}, {}", epoch_ + 1,
               epoch_loss_ / static_cast<double>(epoch_steps_), format_duration(epoch_seconds_),
               describe_speed(amount, epoch_seconds_));
  epoch_steps_ = epoch_tokens_ = 0;
  epoch_loss_ = epoch_seconds_ = epoch_audio_ = 0.0;
}

void TrainView::show_evaluation(int64_t step, const train::Evaluation& evaluation) {
  bar_.clear();
  spdlog::info(
      "step {}: {}{}", step, describe(evaluation),
      evaluation.num_skipped == 0 ? "" : fmt::format("; {} skipped", evaluation.num_skipped));
}

}  // namespace sotto::cli
