#include "sotto/report/run_content.h"

#include <algorithm>
#include <cmath>

namespace sotto::report {

std::string name_of(RunEvent::Kind kind) {
  switch (kind) {
    case RunEvent::Kind::kOutOfMemory: return "out of memory";
    case RunEvent::Kind::kResume: return "resume";
    case RunEvent::Kind::kSkipped: return "skipped utterance";
    case RunEvent::Kind::kOverflow: return "overflow";
    case RunEvent::Kind::kRelease: return "release of caches";
  }
  return "";
}

std::string name_of(RunState state) {
  switch (state) {
    case RunState::kComplete: return "complete";
    case RunState::kStopped: return "stopped and saved";
    case RunState::kEndedEarly: return "stopped early: no improvement";
    case RunState::kRunning: return "running";
    case RunState::kFailed: return "failed";
    case RunState::kInterrupted: return "interrupted";
  }
  return "";
}

std::string metric_of(const RunContent& run) {
  return run.is_text() ? "perplexity" : "WER";
}

bool RunContent::is_text() const {
  if (facts) return facts->is_text;
  if (!evaluations.empty()) return evaluations.front().perplexity.has_value();
  return std::ranges::none_of(steps, [](const RunStep& step) { return step.audio_seconds > 0.0; });
}

int64_t RunContent::peak_bytes() const {
  int64_t peak = 0;
  for (const RunStep& step : steps) peak = std::max(peak, step.peak_bytes);
  return peak;
}

int64_t RunContent::count(RunEvent::Kind kind) const {
  return std::ranges::count(events, kind, &RunEvent::kind);
}

const RunEvaluation* RunContent::best_evaluation() const {
  const RunEvaluation* best = nullptr;
  for (const RunEvaluation& evaluation : evaluations) {
    if (!evaluation.quality() || !std::isfinite(*evaluation.quality())) continue;
    if (best == nullptr || *evaluation.quality() < *best->quality()) best = &evaluation;
  }
  return best;
}

double RunContent::speed() const {
  double amount = 0.0, seconds = 0.0;
  // The first step of a process includes preparations.
  for (size_t i = steps.size() > 1 ? 1 : 0; i < steps.size(); ++i) {
    amount += is_text() ? static_cast<double>(steps[i].num_frames) : steps[i].audio_seconds;
    seconds += steps[i].seconds;
  }
  return seconds > 0.0 ? amount / seconds : 0.0;
}

double RunContent::median_step_seconds() const {
  std::vector<double> seconds;
  // The first step of a process includes preparations.
  for (size_t i = steps.size() > 1 ? 1 : 0; i < steps.size(); ++i)
    seconds.push_back(steps[i].seconds);
  if (seconds.empty()) return 0.0;
  const auto middle = seconds.begin() + std::ssize(seconds) / 2;
  std::ranges::nth_element(seconds, middle);
  return *middle;
}

double RunContent::training_seconds() const {
  double seconds = 0.0;
  for (const RunStep& step : steps) seconds += step.seconds;
  return seconds;
}

double RunContent::evaluation_seconds() const {
  double seconds = 0.0;
  for (const RunEvaluation& evaluation : evaluations) seconds += evaluation.seconds;
  return seconds;
}

std::string RunContent::setting(const std::string& key) const {
  const auto found = std::ranges::find(settings, key, &NamedText::name);
  return found == settings.end() ? std::string() : found->text;
}

}  // namespace sotto::report
