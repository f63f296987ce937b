#include "sotto/train/step/stage_options.h"

#include <array>
#include <charconv>
#include <cmath>

#include "sotto/core/error.h"

namespace sotto::train {

namespace {

constexpr const char* kExpectedSize =
    "a number of samples such as 5000, 100k or 1.5M, a share of the data such as 25%, or all";
constexpr double kLeastPercent = 0.01;
// The sampler numbers samples with 32 bits.
constexpr double kMostSamples = 4294967295.0;

struct Suffix {
  std::string_view text;
  double factor;
};
constexpr std::array kSuffixes = {Suffix{"", 1.0}, Suffix{"k", 1e3}, Suffix{"K", 1e3},
                                  Suffix{"M", 1e6}};

[[noreturn]] void refuse_size(std::string_view text) {
  throw ConfigError({.attempted = "reading the samples of a stage",
                     .found = fmt::format("'{}'", text),
                     .expected = kExpectedSize});
}

int64_t count_of(double number, std::string_view suffix, std::string_view text) {
  for (const Suffix& known : kSuffixes) {
    if (suffix != known.text) continue;
    // Decimals such as 1.1M are not exact.
    const double count = std::round(number * known.factor);
    const bool is_whole = std::abs(number * known.factor - count) < 1e-3;
    if (is_whole && count >= 1.0 && count <= kMostSamples) return static_cast<int64_t>(count);
  }
  refuse_size(text);
}

std::string length_text(const StageOptions& stage) {
  return stage.epochs > 0
             ? fmt::format("{} {}", stage.epochs, stage.epochs == 1 ? "epoch" : "epochs")
             : fmt::format("{} {}", stage.steps, stage.steps == 1 ? "step" : "steps");
}

[[noreturn]] void refuse_shrinking(size_t index, const std::string& found,
                                   const std::string& before) {
  throw ConfigError({.attempted = "setting up the stages",
                     .found = fmt::format("stage {} with {}, after stage {} with {}", index + 1,
                                          found, index, before),
                     .expected = "stages that do not shrink",
                     .hint = "Put the smallest stage first."});
}

// Whether a stage is known to be smaller than the one before it.
bool is_smaller(const StageSize& size, const StageSize& before) {
  using Kind = StageSize::Kind;
  const auto percent = [](const StageSize& s) { return s.kind == Kind::kAll ? 100.0 : s.percent; };
  if (size.kind == Kind::kCount) return before.kind == Kind::kCount && size.count < before.count;
  return before.kind != Kind::kCount && percent(size) < percent(before);
}

// The schedule of a stage, which begins as that of the run. What a stage sets excludes some
// settings of the run; those do not apply to it.
struct StageSchedule {
  optim::ScheduleOptions& options;

  void visit(OptionVisitor& visitor) {
    const optim::ScheduleOptions of_run = options;
    options.visit(visitor);
    const bool sets_steps = options.warmup_steps != of_run.warmup_steps;
    const bool sets_share = options.warmup_share != of_run.warmup_share;
    if (sets_steps && !sets_share) options.warmup_share = 0.0;
    if (sets_share && !sets_steps) options.warmup_steps = 0;
    if (options.kind == of_run.kind) return;
    const optim::ScheduleOptions usual;
    const auto reset = [&](auto optim::ScheduleOptions::* setting) {
      if (options.*setting == of_run.*setting) options.*setting = usual.*setting;
    };
    if (options.kind != optim::ScheduleKind::kTriStage) reset(&optim::ScheduleOptions::hold_share);
    if (options.kind == optim::ScheduleKind::kConstant) reset(&optim::ScheduleOptions::final_ratio);
    if (options.kind == optim::ScheduleKind::kPlateau) return;
    reset(&optim::ScheduleOptions::plateau_factor);
    reset(&optim::ScheduleOptions::plateau_patience);
  }
  void validate() const { options.validate(); }
};

}  // namespace

StageSize StageSize::parse(std::string_view text) {
  if (text == "all") return {};
  double number = 0.0;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const bool begins_with_digit = !text.empty() && text.front() >= '0' && text.front() <= '9';
  if (!begins_with_digit) refuse_size(text);
  const auto [rest, error] = std::from_chars(begin, end, number, std::chars_format::fixed);
  if (error != std::errc()) refuse_size(text);
  const std::string_view suffix(rest, end);
  if (suffix != "%") return {.kind = Kind::kCount, .count = count_of(number, suffix, text)};
  if (number < kLeastPercent || number > 100.0) refuse_size(text);
  return {.kind = Kind::kShare, .percent = number};
}

std::string StageSize::to_string() const {
  if (kind == Kind::kAll) return "all";
  if (kind == Kind::kShare) return fmt::format("{}%", percent);
  if (count % 1'000'000 == 0) return fmt::format("{}M", count / 1'000'000);
  if (count % 1'000 == 0) return fmt::format("{}k", count / 1'000);
  return fmt::format("{}", count);
}

int64_t StageSize::of(int64_t available) const {
  if (kind == Kind::kAll) return available;
  if (kind == Kind::kCount) return count;
  const auto share = std::llround(percent / 100.0 * static_cast<double>(available));
  return std::max<int64_t>(1, share);
}

void StageOptions::visit(OptionVisitor& visitor) {
  visitor.parsed("samples", samples, "number of samples, share of the data, or all", kExpectedSize);
  visitor.value("epochs", epochs, "passes over the samples of the stage; 0: use steps",
                {.min = 0, .max = 1'000'000'000});
  visitor.value("steps", steps, "number of updates, instead of epochs",
                {.min = 0, .max = 1'000'000'000'000});
  StageSchedule own{schedule};
  visitor.group("schedule", own, "learning rate schedule over the steps of the stage");
}

void StageOptions::validate() const {
  if ((epochs > 0) != (steps > 0)) return;
  throw ConfigError({.attempted = "setting up a stage",
                     .found = epochs > 0 ? fmt::format("epochs: {} and steps: {}", epochs, steps)
                                         : "neither epochs nor steps",
                     .expected = "one of them, the length of the stage"});
}

void check_order(const std::vector<StageOptions>& stages) {
  for (size_t i = 1; i < stages.size(); ++i) {
    if (is_smaller(stages[i].samples, stages[i - 1].samples))
      refuse_shrinking(i, stages[i].samples.to_string(), stages[i - 1].samples.to_string());
  }
}

std::vector<int64_t> stage_sizes(const std::vector<StageOptions>& stages, int64_t available) {
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < stages.size(); ++i) {
    const int64_t size = stages[i].samples.of(available);
    if (size > available)
      throw ConfigError({.attempted = "setting up the stages",
                         .found = fmt::format("stage {} with {} samples, and training data with {}",
                                              i + 1, size, available),
                         .expected = fmt::format("at most {} samples", available),
                         .hint = "Write 'samples: all', or remove the stage."});
    if (i > 0 && size < sizes.back())
      refuse_shrinking(i, fmt::format("{} samples", size), fmt::format("{}", sizes.back()));
    sizes.push_back(size);
  }
  return sizes;
}

std::string describe(const std::vector<StageOptions>& stages) {
  std::string text;
  for (const StageOptions& stage : stages)
    text += fmt::format("{}{} for {}", text.empty() ? "" : ", ", stage.samples.to_string(),
                        length_text(stage));
  return text;
}

}  // namespace sotto::train
