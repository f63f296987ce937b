#include "sotto/data/dataset.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "sotto/core/parallel.h"
#include "sotto/data/audio.h"
#include "sotto/data/features.h"

namespace sotto::data {

void DatasetOptions::visit(OptionVisitor& visitor) {
  visitor.value("min_seconds", min_seconds, "of an utterance", {.min = 0.0});
  visitor.value("max_seconds", max_seconds, "of an utterance; 0: no bound", {.min = 0.0});
  visitor.value("max_samples", max_samples, "the first so many utterances that take part; 0: all",
                {.min = 0});
  visitor.choice("too_short", too_short, "what to do with an utterance below min_seconds",
                 kPolicies);
  visitor.choice("too_long", too_long, "what to do with an utterance above max_seconds", kPolicies);
  visitor.choice("broken", broken,
                 "what to do with a line or a file that cannot be read as it should", kPolicies);
  visitor.choice("unknown_text", unknown_text,
                 "what to do with a transcript with characters that the tokenizer lacks",
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

Dataset::Dataset(Manifest manifest, Tokenizer tokenizer, const DatasetOptions& options,
                 AudioTreatment treatment)
    : manifest_(std::move(manifest)),
      tokenizer_(std::move(tokenizer)),
      options_(options),
      treatment_(std::move(treatment)),
      shards_(std::make_shared<TarShards>()) {
  options_.validate();
  const bool is_treated = treatment_.augmentation != nullptr || treatment_.cache != nullptr;
  if (is_treated && manifest_.feature_dim() > 0) {
    throw ConfigError({.attempted = fmt::format("treating {}", manifest_.path().string()),
                       .found = "data.augment or data.cache, and stored features",
                       .expected = "audio",
                       .hint = "Masks of the features are the network's: model.spec_augment."});
  }
  take_bad_lines();
  if (!tokenizer_.has_each(manifest_.index().characters())) look_at_texts();
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
  const Tokenizer::Encoded encoded = tokenizer_.encode(utterance.text);
  if (encoded.text.empty()) {
    faults.push_back({.found = "an empty text",
                      .expected = "a transcript",
                      .policy = options_.empty_text,
                      .setting = "empty_text"});
  }
  if (!encoded.unknown.empty()) {
    faults.push_back({.found = fmt::format("unknown characters '{}' in its text",
                                           fmt::join(encoded.unknown, "', '")),
                      .expected = "those of the tokenizer",
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

void Dataset::skip(int64_t utterance, const std::string& reason) {
  ++num_skipped_;
  if (std::ssize(skipped_) < kMostReasons)
    skipped_.push_back({.utterance = utterance, .reason = reason});
}

void Dataset::take_bad_lines() {
  const ManifestIndex& index = manifest_.index();
  if (index.num_bad_lines() == 0) return;
  if (options_.broken == Policy::kError) {
    const std::string more =
        index.num_bad_lines() == 1
            ? " broken: skip leaves such lines out."
            : fmt::format(" {} lines are broken. broken: skip leaves them out.",
                          index.num_bad_lines());
    throw manifest_.error_of(index.bad_lines().front(), more);
  }
  for (const BadLine& bad : index.bad_lines()) skip(-1, manifest_.error_of(bad).what());
  num_skipped_ = index.num_bad_lines();
}

// In single precision, as the index has them: a bound is an allowed value.
bool Dataset::may_be_faulty(int64_t utterance) const {
  const auto place = static_cast<size_t>(utterance);
  const ManifestIndex::Columns& columns = manifest_.index().columns();
  const float seconds = columns.durations_s[place];
  return (!has_text_fault_.empty() && has_text_fault_[place]) ||
         seconds < static_cast<float>(options_.min_seconds) ||
         (options_.max_seconds > 0.0 && seconds > static_cast<float>(options_.max_seconds)) ||
         (manifest_.feature_dim() > 0 && columns.num_frames[place] < options_.min_rows) ||
         (columns.num_characters[place] == 0 && options_.empty_text != Policy::kKeep);
}

void Dataset::select_utterances() {
  // The first utterance that a policy refuses, and how many more its setting would.
  std::optional<int64_t> refused;
  std::map<std::string, int64_t> num_refused;
  for (int64_t u = 0; u < manifest_.size(); ++u) {
    if (options_.max_samples > 0 && std::ssize(utterances_) == options_.max_samples) break;
    if (!may_be_faulty(u)) {
      utterances_.push_back(static_cast<uint32_t>(u));
      continue;
    }
    const Utterance utterance = manifest_.at(u);
    const std::vector<Fault> faults = faults_of(utterance);
    if (faults.empty()) {
      utterances_.push_back(static_cast<uint32_t>(u));
      continue;
    }
    for (const Fault& fault : faults) {
      if (fault.policy != Policy::kError) continue;
      if (!refused) refused = u;
      ++num_refused[fault.setting];
    }
    skip(u, fmt::format("line {} ({}): {}, expected {}", utterance.line, utterance.file,
                        faults.front().found, faults.front().expected));
  }
  if (refused) {
    const Utterance utterance = manifest_.at(*refused);
    for (const Fault& fault : faults_of(utterance)) {
      if (fault.policy != Policy::kError) continue;
      const int64_t count = num_refused[fault.setting];
      throw error_of(utterance, fault,
                     count == 1 ? "" : fmt::format("{} utterances are so. ", count));
    }
  }
  if (utterances_.empty()) refuse_emptiness();
}

void Dataset::refuse_emptiness() const {
  throw DataError(
      {.attempted = fmt::format("taking the utterances of {}", manifest_.path().string()),
       .found = fmt::format("none of {} is left; the first was left out for {}", manifest_.size(),
                            skipped_.front().reason),
       .expected = "at least one"});
}

void Dataset::look_at_texts() {
  has_text_fault_.resize(static_cast<size_t>(manifest_.size()));
  num_labels_.resize(static_cast<size_t>(manifest_.size()));
  constexpr int64_t kAtOnce = 4096;
  const int64_t num_blocks = (manifest_.size() + kAtOnce - 1) / kAtOnce;
  parallel_for(num_blocks, [&](int64_t block) {
    const int64_t end = std::min((block + 1) * kAtOnce, manifest_.size());
    for (int64_t u = block * kAtOnce; u < end; ++u) {
      const Tokenizer::Encoded encoded = tokenizer_.encode(manifest_.at(u).text);
      const auto place = static_cast<size_t>(u);
      has_text_fault_[place] = encoded.unknown.empty() && !encoded.text.empty() ? 0 : 1;
      num_labels_[place] = static_cast<uint32_t>(encoded.labels.size());
    }
  });
}

Dataset::Size Dataset::size_of(int64_t place) const {
  const size_t utterance = utterances_[static_cast<size_t>(place)];
  const ManifestIndex::Columns& columns = manifest_.index().columns();
  const double slowest =
      treatment_.augmentation != nullptr ? treatment_.augmentation->slowest() : 1.0;
  const double samples = std::ceil(double{columns.durations_s[utterance]} / slowest *
                                   static_cast<double>(options_.sample_rate));
  return {.rows = manifest_.feature_dim() > 0 ? int64_t{columns.num_frames[utterance]}
                                              : static_cast<int64_t>(samples),
          .labels = num_labels_.empty() ? int64_t{columns.num_characters[utterance]}
                                        : int64_t{num_labels_[utterance]}};
}

std::vector<float> Dataset::durations_s() const {
  std::vector<float> durations;
  durations.reserve(utterances_.size());
  for (const uint32_t utterance : utterances_)
    durations.push_back(manifest_.index().columns().durations_s[utterance]);
  return durations;
}

std::vector<int32_t> Dataset::labels_of(int64_t utterance) const {
  return tokenizer_.encode(manifest_.at(utterance).text).labels;
}

std::vector<float> Dataset::read_samples(const Utterance& line, int64_t utterance) const {
  if (treatment_.cache != nullptr) {
    if (std::optional<std::vector<float>> kept = treatment_.cache->find(utterance))
      return std::move(*kept);
  }
  std::vector<float> samples = read_audio(
      {.path = manifest_.path_of(line), .offset_s = line.offset_s, .duration_s = line.duration_s},
      options_.sample_rate, *shards_);
  if (treatment_.cache != nullptr) treatment_.cache->add(utterance, samples);
  return samples;
}

Example Dataset::read(const Utterance& line, int64_t utterance, int64_t epoch) const {
  Example example{.utterance = utterance,
                  .values = {},
                  .rows = line.num_frames,
                  .feature_dim = line.feature_dim,
                  .labels = tokenizer_.encode(line.text).labels};
  if (line.feature_dim > 0) {
    example.values = read_features({.path = manifest_.path_of(line),
                                    .frame_offset = line.frame_offset,
                                    .num_frames = line.num_frames,
                                    .feature_dim = line.feature_dim});
  } else {
    example.values = read_samples(line, utterance);
    if (treatment_.augmentation != nullptr)
      treatment_.augmentation->apply(example.values, utterance, epoch);
    example.rows = static_cast<int64_t>(example.values.size());
  }
  return example;
}

std::variant<Example, SkippedUtterance> Dataset::load(int64_t utterance, int64_t epoch) const {
  const Utterance line = manifest_.at(utterance);
  Example example;
  try {
    example = read(line, utterance, epoch);
  } catch (const DataError& error) {
    std::string found = error.what();
    if (found.ends_with('.')) found.pop_back();
    const DataError numbered(
        {.attempted = fmt::format("taking line {} of {}", line.line, manifest_.path().string()),
         .found = std::move(found),
         .hint =
             options_.broken == Policy::kError ? "broken: skip leaves such utterances out." : ""});
    if (options_.broken == Policy::kError) throw numbered;
    return SkippedUtterance{.utterance = utterance, .reason = numbered.what()};
  }
  if (example.rows >= options_.min_rows) return example;
  const DataError error = error_of(line, too_few_rows(example.rows), "");
  if (options_.too_short == Policy::kError) throw error;
  return SkippedUtterance{.utterance = utterance, .reason = error.what()};
}

}  // namespace sotto::data
