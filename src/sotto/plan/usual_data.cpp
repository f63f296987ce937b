#include "sotto/plan/usual_data.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sotto/models/model_profile.h"

namespace sotto::plan {

namespace {

// Durations in seconds of utterances of train-clean-100 (28,538 of them, 100.6 hours): minimum,
// maximum and equally spaced quantiles between them.
constexpr std::array kSeconds = {1.41,  3.21,  4.25,  5.31,  6.45,  7.56,  8.62,  9.56,  10.39,
                                 11.07, 11.62, 12.06, 12.4,  12.68, 12.93, 13.15, 13.36, 13.53,
                                 13.69, 13.85, 13.99, 14.13, 14.27, 14.39, 14.52, 14.63, 14.74,
                                 14.84, 14.95, 15.06, 15.16, 15.27, 15.37, 15.48, 15.59, 15.7,
                                 15.81, 15.93, 16.09, 16.38, 24.52};
// Characters of a transcript per second.
constexpr double kCharactersPerSecond = 14.55;
// Tokens of Whisper's vocabulary per second.
constexpr double kTokensPerSecond = 3.6;
constexpr int kCount = 1'000;

// Without a tokenizer labels are characters, unless the network is built for another one.
int64_t num_labels(const train::RunConfig& config, double seconds) {
  const std::optional<data::PromptRules> rules = config.model.prompts();
  if (!rules) return std::llround(seconds * kCharactersPerSecond);
  return rules->numbers.num_prompt() + std::llround(seconds * kTokensPerSecond);
}

double seconds_at(double share) {
  const double position = share * static_cast<double>(kSeconds.size() - 1);
  const auto below = std::min(static_cast<size_t>(position), kSeconds.size() - 2);
  const double part = position - static_cast<double>(below);
  return kSeconds[below] + part * (kSeconds[below + 1] - kSeconds[below]);
}

}  // namespace

data::ExampleList usual_data(const train::RunConfig& config) {
  std::vector<data::Example> examples;
  std::vector<float> lengths;
  for (int i = 0; i < kCount; ++i) {
    if (config.model.task().is_text()) {
      examples.push_back(data::make_dry_text(config.data.row_tokens));
      lengths.push_back(static_cast<float>(config.data.row_tokens));
      continue;
    }
    const double seconds = seconds_at(static_cast<double>(i) / (kCount - 1));
    examples.push_back(data::make_dry_example(
        std::llround(seconds * static_cast<double>(config.model.sample_rate())),
        /*feature_dim=*/0, num_labels(config, seconds)));
    lengths.push_back(static_cast<float>(seconds));
  }
  return data::ExampleList(std::move(examples), std::move(lengths));
}

models::DataShape usual_shape(const train::RunConfig& config) {
  return {.vocabulary = config.model.usual_vocabulary()};
}

}  // namespace sotto::plan
