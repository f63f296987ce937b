#include "sotto/data/dataset.h"

#include <fmt/ranges.h>

#include <map>
#include <optional>

#include "sotto/data/audio.h"
#include "sotto/data/features.h"

namespace sotto::data {

void DatasetOptions::visit(OptionVisitor& visitor) {
  visitor.value("min_seconds", min_seconds, "of an utterance", {.min = 0.0});
  visitor.value("max_seconds", max_seconds, "of an utterance; 0: no bound", {.min = 0.0});
  visitor.choice("too_short", too_short, "what to do with an utterance below min_seconds",
                 kPolicies);
  visitor.choice("too_long", too_long, "what to do with an utterance above max_seconds", kPolicies);
  visitor.choice("broken", broken, "what to do with a file that cannot be read as it should",
                 kPolicies);
  visitor.choice("unknown_text", unknown_text,
                 "what to do with a transcript with characters that the vocabulary lacks",
                 kPolicies);
  visitor.choice("empty_text", empty_text, "what to do with an empty transcript",
                 kEmptyTextPolicies);
}

void DatasetOptions::validate() const {
  if (max_seconds == 0.0 || min_seconds <= max_seconds) return;
  throw ConfigError(
      {.attempted = "setting up the data",
       .found = fmt::format("min_seconds {} and max_seconds {}", min_seconds, max_seconds),
       .expected = "min_seconds of at most max_seconds, or max_seconds 0"});
}

Dataset::Dataset(Manifest manifest, Vocabulary vocabulary, const DatasetOptions& options)
    : manifest_(std::move(manifest)), vocabulary_(std::move(vocabulary)), options_(options) {
  options_.validate();
  select_utterances();
}

Dataset::Fault Dataset::too_few_rows(int64_t rows) const {
  return {.found = fmt::format("{} {}", rows, manifest_.feature_dim() > 0 ? "frames" : "samples"),
          .expected = fmt::format("at least {}, for the model", options_.min_rows),
          .policy = options_.too_short,
          .setting = "too_short"};
}

std::vector<Dataset::Fault> Dataset::faults_of(const Utterance& utterance) const {
  std::vector<Fault> faults;
  const double seconds = utterance.duration_s;
  if (seconds < options_.min_seconds) {
    faults.push_back({.found = fmt::format("{} s", seconds),
                      .expected = fmt::format("at least {} s, min_seconds", options_.min_seconds),
                      .policy = options_.too_short,
                      .setting = "too_short"});
  }
  if (utterance.feature_dim > 0 && utterance.num_frames < options_.min_rows)
    faults.push_back(too_few_rows(utterance.num_frames));
  if (options_.max_seconds > 0.0 && seconds > options_.max_seconds) {
    faults.push_back({.found = fmt::format("{} s", seconds),
                      .expected = fmt::format("at most {} s, max_seconds", options_.max_seconds),
                      .policy = options_.too_long,
                      .setting = "too_long"});
  }
  if (utterance.text.empty()) {
    faults.push_back({.found = "an empty text",
                      .expected = "a transcript",
                      .policy = options_.empty_text,
                      .setting = "empty_text"});
  }
  const std::vector<std::string> unknown = vocabulary_.encode(utterance.text).unknown;
  if (!unknown.empty()) {
    faults.push_back(
        {.found = fmt::format("unknown characters '{}' in its text", fmt::join(unknown, "', '")),
         .expected = "those of the vocabulary",
         .policy = options_.unknown_text,
         .setting = "unknown_text"});
  }
  std::erase_if(faults, [](const Fault& fault) { return fault.policy == Policy::kKeep; });
  return faults;
}

DataError Dataset::error_of(const Utterance& utterance, const Fault& fault,
                            const std::string& more) const {
  return DataError(
      {.attempted = fmt::format("taking the utterances of {}", manifest_.path().string()),
       .found = fmt::format("line {} ({}): {}", utterance.line, utterance.file, fault.found),
       .expected = fault.expected,
       .hint = fmt::format("{}{}: skip leaves such utterances out.", more, fault.setting)});
}

void Dataset::select_utterances() {
  // The first utterance that a policy refuses, and how many more its setting would.
  std::optional<int64_t> refused;
  std::map<std::string, int64_t> num_refused;
  for (int64_t u = 0; u < manifest_.size(); ++u) {
    const std::vector<Fault> faults = faults_of(manifest_.at(u));
    bool is_error = false;
    for (const Fault& fault : faults) {
      if (fault.policy != Policy::kError) continue;
      is_error = true;
      ++num_refused[fault.setting];
    }
    if (is_error && !refused) refused = u;
    if (faults.empty()) {
      utterances_.push_back(u);
    } else {
      const Fault& fault = faults.front();
      skipped_.push_back(
          {.utterance = u,
           .reason = fmt::format("line {} ({}): {}, expected {}", manifest_.at(u).line,
                                 manifest_.at(u).file, fault.found, fault.expected)});
    }
  }
  if (refused) {
    for (const Fault& fault : faults_of(manifest_.at(*refused))) {
      if (fault.policy != Policy::kError) continue;
      const int64_t count = num_refused[fault.setting];
      throw error_of(manifest_.at(*refused), fault,
                     count == 1 ? "" : fmt::format("{} utterances are so. ", count));
    }
  }
  if (!utterances_.empty()) return;
  throw DataError(
      {.attempted = fmt::format("taking the utterances of {}", manifest_.path().string()),
       .found = fmt::format("none of {} is left; the first was left out for {}", manifest_.size(),
                            skipped_.front().reason),
       .expected = "at least one"});
}

std::vector<double> Dataset::durations_s() const {
  std::vector<double> durations;
  for (const int64_t utterance : utterances_)
    durations.push_back(manifest_.at(utterance).duration_s);
  return durations;
}

std::vector<int32_t> Dataset::labels_of(int64_t utterance) const {
  return vocabulary_.encode(manifest_.at(utterance).text).labels;
}

Example Dataset::read(int64_t utterance) const {
  const Utterance& line = manifest_.at(utterance);
  Example example{.utterance = utterance,
                  .values = {},
                  .rows = line.num_frames,
                  .feature_dim = line.feature_dim,
                  .labels = labels_of(utterance)};
  if (line.feature_dim > 0) {
    example.values = read_features({.path = manifest_.path_of(line),
                                    .frame_offset = line.frame_offset,
                                    .num_frames = line.num_frames,
                                    .feature_dim = line.feature_dim});
  } else {
    example.values = read_audio(
        {.path = manifest_.path_of(line), .offset_s = line.offset_s, .duration_s = line.duration_s},
        options_.sample_rate);
    example.rows = static_cast<int64_t>(example.values.size());
  }
  return example;
}

std::variant<Example, SkippedUtterance> Dataset::load(int64_t utterance) const {
  Example example;
  try {
    example = read(utterance);
  } catch (const DataError& error) {
    if (options_.broken == Policy::kError) throw;
    return SkippedUtterance{.utterance = utterance, .reason = error.what()};
  }
  if (example.rows >= options_.min_rows) return example;
  const DataError error = error_of(manifest_.at(utterance), too_few_rows(example.rows), "");
  if (options_.too_short == Policy::kError) throw error;
  return SkippedUtterance{.utterance = utterance, .reason = error.what()};
}

}  // namespace sotto::data
