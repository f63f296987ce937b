#include "sotto/data/batch/dataset.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>

#include "sotto/core/hash.h"
#include "sotto/core/parallel.h"
#include "sotto/data/audio/audio.h"
#include "sotto/data/audio/features.h"
#include "sotto/data/batch/label_counts.h"

namespace sotto::data {

namespace {

// Maximum rows of an utterance: packs count their rows in 32 bits, and layers a few times as many.
// As audio at 16 kHz it is 18 hours.
constexpr int64_t kMostRows = 1 << 30;

// Returns the command-line setting for a policy.
std::string skip_hint(std::string_view setting, std::string_view what) {
  return fmt::format("--set data.{}=skip skips such {}.", setting, what);
}

// Returns the seconds rounded to milliseconds, for messages.
double to_milliseconds(double seconds) {
  return std::round(1000.0 * seconds) / 1000.0;
}

}  // namespace

void DatasetOptions::visit(OptionVisitor& visitor) {
  visitor.value("min_seconds", min_seconds, "minimum duration of an utterance, in seconds",
                {.min = 0.0});
  visitor.value("max_seconds", max_seconds,
                "maximum duration of an utterance, in seconds; 0: no limit", {.min = 0.0});
  visitor.value("max_samples", max_samples, "use only the first N utterances; 0: all", {.min = 0});
  visitor.choice("too_short", too_short, "what to do with an utterance shorter than min_seconds",
                 kPolicies);
  visitor.choice("too_long", too_long, "what to do with an utterance longer than max_seconds",
                 kTooLongPolicies);
  visitor.choice("broken", broken, "what to do with an invalid manifest line or unreadable file",
                 kPolicies);
  visitor.choice("unknown_text", unknown_text,
                 "what to do with a transcript that the tokenizer cannot encode", kPolicies);
  visitor.choice("empty_text", empty_text, "what to do with an empty transcript",
                 kEmptyTextPolicies);
}

void DatasetOptions::validate() const {
  if (too_long == Policy::kChunk && max_seconds == 0.0) {
    throw ConfigError({.attempted = "setting up the data",
                       .found = "too_long: chunk without max_seconds",
                       .expected = "max_seconds, the maximum duration of a piece",
                       .hint = "Use --set data.max_seconds=30; --set data.too_large=chunk cuts "
                               "what does not fit into the budget."});
  }
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
    throw ConfigError({.attempted = fmt::format("preparing {}", manifest_.path().string()),
                       .found = "data.augment or data.cache with stored features",
                       .expected = "audio",
                       .hint = "To mask features, use model.spec_augment."});
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

Dataset::Fault Dataset::too_many_rows(int64_t rows) const {
  return {.found = fmt::format("{} {}", rows, manifest_.feature_dim() > 0 ? "frames" : "samples"),
          .expected = fmt::format("at most {}, for the model", options_.max_rows),
          .policy = options_.too_long == Policy::kChunk ? Policy::kError : options_.too_long,
          .setting = "too_long"};
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
  if (std::optional<Fault> fault = fault_of_length(utterance)) faults.push_back(std::move(*fault));
  if (std::optional<Fault> fault = fault_of_rows(utterance)) faults.push_back(std::move(*fault));
  const Tokenizer::Encoded encoded = tokenizer_.encode(utterance.text);
  for (Fault& fault : faults_of_text(encoded, "")) faults.push_back(std::move(fault));
  if (std::optional<Fault> fault = fault_of_labels(utterance.lang, encoded.labels, ""))
    faults.push_back(std::move(*fault));
  return faults;
}

std::vector<Dataset::Fault> Dataset::faults_of_text(const Tokenizer::Encoded& encoded,
                                                    const std::string& piece) const {
  std::vector<Fault> faults;
  if (encoded.text.empty() && options_.empty_text != Policy::kKeep) {
    faults.push_back({.found = "an empty text" + piece,
                      .expected = "a transcript",
                      .policy = options_.empty_text,
                      .setting = "empty_text"});
  }
  if (!encoded.unknown.empty()) {
    faults.push_back(
        {.found = fmt::format("unknown characters '{}'{}", fmt::join(encoded.unknown, "', '"),
                              piece.empty() ? " in its text" : piece),
         .expected = "characters of the tokenizer",
         .policy = options_.unknown_text,
         .setting = "unknown_text"});
  }
  return faults;
}

std::optional<Dataset::Fault> Dataset::fault_of_labels(const std::string& lang,
                                                       const std::vector<int32_t>& labels,
                                                       const std::string& piece) const {
  if (options_.prompts == nullptr) return std::nullopt;
  const int64_t most = options_.prompts->max_labels() - num_prompt();
  if (std::ssize(labels) > most) {
    return Fault{.found = fmt::format("a text of {} tokens{}", labels.size(), piece),
                 .expected = fmt::format("at most {}, for the model", most),
                 .policy = options_.broken,
                 .setting = "broken"};
  }
  try {
    options_.prompts->of(lang);
  } catch (const ConfigError& error) {
    return Fault{.found = error.what(),
                 .expected = "a language of the tokenizer: lang in the manifest, or data.language",
                 .policy = options_.broken,
                 .setting = "broken"};
  }
  return std::nullopt;
}

std::vector<int32_t> Dataset::with_prompt(const std::string& lang,
                                          std::vector<int32_t> labels) const {
  if (options_.prompts == nullptr) return labels;
  std::vector<int32_t> all = options_.prompts->of(lang);
  all.insert(all.end(), labels.begin(), labels.end());
  return all;
}

std::string Dataset::reason_of(const Utterance& utterance, const Fault& fault) {
  return fmt::format("line {} ({}): {}, expected {}", utterance.line, utterance.file, fault.found,
                     fault.expected);
}

double Dataset::most_seconds() const {
  if (options_.max_rows == 0 || manifest_.feature_dim() > 0) return options_.max_seconds;
  const double of_model =
      static_cast<double>(options_.max_rows) / static_cast<double>(options_.sample_rate);
  return options_.max_seconds > 0.0 ? std::min(options_.max_seconds, of_model) : of_model;
}

std::string Dataset::most_text() const {
  const double most = most_seconds();
  return fmt::format("at most {} s, {}", to_milliseconds(most),
                     most == options_.max_seconds ? "max_seconds" : "the window of the model");
}

std::optional<Dataset::Fault> Dataset::fault_of_length(const Utterance& utterance) const {
  if (!is_too_long(utterance)) return std::nullopt;
  const double most = most_seconds();
  if (options_.too_long != Policy::kChunk) {
    return Fault{.found = fmt::format("{} s", to_milliseconds(utterance.duration_s)),
                 .expected = most_text(),
                 .policy = options_.too_long,
                 .setting = "too_long"};
  }
  // An utterance that cannot be cut is refused: the user did not ask to lose it.
  if (utterance.segments.empty()) {
    return Fault{.found = fmt::format("{} s without segments to cut it at", utterance.duration_s),
                 .expected = "segments: a list of offset, duration and text",
                 .setting = "too_long"};
  }
  for (const Segment& segment : utterance.segments) {
    if (segment.duration_s <= most) continue;
    return Fault{.found = fmt::format("a segment of {} s", to_milliseconds(segment.duration_s)),
                 .expected = most_text(),
                 .setting = "too_long"};
  }
  return std::nullopt;
}

// Returns what is wrong with the number of rows of an utterance that is not cut.
std::optional<Dataset::Fault> Dataset::fault_of_rows(const Utterance& utterance) const {
  const bool is_cut = is_too_long(utterance) && options_.too_long == Policy::kChunk;
  const int64_t rows =
      utterance.feature_dim > 0 ? utterance.num_frames : num_samples(utterance.duration_s);
  if (rows <= kMostRows || is_cut) return std::nullopt;
  return Fault{
      .found = fmt::format("{} {}", rows, utterance.feature_dim > 0 ? "frames" : "samples"),
      .expected = fmt::format("at most {}", kMostRows),
      .policy = options_.broken,
      .setting = "broken"};
}

DataError Dataset::error_of(const Utterance& utterance, const Fault& fault,
                            const std::string& more) const {
  return DataError(
      {.attempted = fmt::format("selecting the utterances of {}", manifest_.path().string()),
       .found = fmt::format("line {} ({}): {}", utterance.line, utterance.file, fault.found),
       .expected = fault.expected,
       .hint = more + skip_hint(fault.setting, "utterances")});
}

void Dataset::skip(int64_t utterance, const std::string& reason) {
  ++num_skipped_;
  if (std::ssize(skipped_) < kMostReasons)
    skipped_.push_back({.utterance = utterance, .reason = reason});
}

void Dataset::take_bad_lines() {
  const ManifestIndex& lines = manifest_.index();
  if (lines.num_bad_lines() == 0) return;
  if (options_.broken == Policy::kError) {
    const std::string more = lines.num_bad_lines() == 1
                                 ? " "
                                 : fmt::format(" {} lines are broken. ", lines.num_bad_lines());
    throw manifest_.error_of(lines.bad_lines().front(), more + skip_hint("broken", "lines"));
  }
  for (const BadLine& bad : lines.bad_lines()) skip(-1, manifest_.error_of(bad).what());
  num_skipped_ = lines.num_bad_lines();
}

// In single precision, like the index: a limit is an allowed value.
bool Dataset::may_be_faulty(int64_t utterance) const {
  const auto row = static_cast<size_t>(utterance);
  const ManifestIndex::Columns& columns = manifest_.index().columns();
  const float seconds = columns.durations_s[row];
  return (!has_text_fault_.empty() && has_text_fault_[row]) ||
         seconds < static_cast<float>(options_.min_seconds) ||
         (most_seconds() > 0.0 && seconds > static_cast<float>(most_seconds())) ||
         (manifest_.feature_dim() > 0 && columns.num_frames[row] < options_.min_rows) ||
         columns.num_frames[row] > kMostRows || num_samples(double{seconds}) > kMostRows ||
         (columns.num_characters[row] == 0 && options_.empty_text != Policy::kKeep);
}

void Dataset::select_utterances() {
  // The first utterance that a policy refuses, and how many more its setting would refuse.
  std::optional<int64_t> refused;
  std::map<std::string, int64_t> num_refused;
  for (int64_t u = 0; u < manifest_.size(); ++u) {
    if (options_.max_samples > 0 && num_items() >= options_.max_samples) break;
    if (!may_be_faulty(u)) {
      utterances_.push_back(static_cast<uint32_t>(u));
      continue;
    }
    const Utterance utterance = manifest_.at(u);
    const std::vector<Fault> faults = faults_of(utterance);
    if (faults.empty()) {
      if (is_too_long(utterance)) {
        add_pieces(utterance, u);
      } else {
        utterances_.push_back(static_cast<uint32_t>(u));
      }
      continue;
    }
    for (const Fault& fault : faults) {
      if (fault.policy != Policy::kError) continue;
      if (!refused) refused = u;
      ++num_refused[fault.setting];
    }
    skip(u, reason_of(utterance, faults.front()));
  }
  if (refused) {
    const Utterance utterance = manifest_.at(*refused);
    for (const Fault& fault : faults_of(utterance)) {
      if (fault.policy != Policy::kError) continue;
      const int64_t count = num_refused[fault.setting];
      throw error_of(utterance, fault,
                     count == 1 ? "" : fmt::format("{} utterances affected. ", count));
    }
  }
  if (num_items() == 0) require_not_empty();
}

void Dataset::add_pieces(const Utterance& utterance, int64_t row) {
  uint32_t number = 0;
  for (const SegmentRun& run : join_segments(utterance.segments, most_seconds())) {
    const Utterance cut = cut_utterance(utterance, run);
    const Tokenizer::Encoded encoded = tokenizer_.encode(cut.text);
    const std::string piece =
        fmt::format(" in the piece from {} s", utterance.segments[run.first].offset_s);
    std::vector<Fault> faults = faults_of_text(encoded, piece);
    if (std::optional<Fault> fault = fault_of_labels(cut.lang, encoded.labels, piece))
      faults.push_back(std::move(*fault));
    if (!faults.empty()) {
      for (const Fault& fault : faults) {
        if (fault.policy == Policy::kError) throw error_of(utterance, fault, "");
      }
      skip(row, reason_of(utterance, faults.front()));
      continue;
    }
    pieces_.push_back(
        {.utterance = static_cast<uint32_t>(row),
         .number = number++,
         .run = run,
         .seconds = static_cast<float>(cut.duration_s),
         .num_frames = static_cast<uint32_t>(cut.num_frames),
         .num_labels = static_cast<uint32_t>(std::ssize(encoded.labels) + num_prompt())});
  }
}

void Dataset::require_not_empty() const {
  throw DataError(
      {.attempted = fmt::format("selecting the utterances of {}", manifest_.path().string()),
       .found = fmt::format("all {} were skipped; the first: {}", manifest_.size(),
                            skipped_.front().reason),
       .expected = "at least one"});
}

void Dataset::look_at_texts() {
  if (manifest_.size() < kLeastStoredLines) return count_labels();
  uint64_t of_labels = tokenizer_.fingerprint();
  if (options_.prompts != nullptr)
    of_labels = hash_combine(of_labels, options_.prompts->fingerprint());
  const std::filesystem::path path = label_counts_path(manifest_.fingerprint(), of_labels);
  if (std::optional<LabelCounts> stored = read_label_counts(path, manifest_.size())) {
    has_text_fault_ = std::move(stored->has_fault);
    num_labels_ = std::move(stored->num_labels);
    return;
  }
  count_labels();
  write_label_counts(path, {.num_labels = num_labels_, .has_fault = has_text_fault_});
}

void Dataset::count_labels() {
  has_text_fault_.resize(static_cast<size_t>(manifest_.size()));
  num_labels_.resize(static_cast<size_t>(manifest_.size()));
  constexpr int64_t kAtOnce = 4096;
  const int64_t num_blocks = (manifest_.size() + kAtOnce - 1) / kAtOnce;
  parallel_for(num_blocks, [&](int64_t block) {
    const int64_t end = std::min((block + 1) * kAtOnce, manifest_.size());
    for (int64_t u = block * kAtOnce; u < end; ++u) {
      const Utterance line = manifest_.at(u);
      const Tokenizer::Encoded encoded = tokenizer_.encode(line.text);
      const auto row = static_cast<size_t>(u);
      const bool is_whole = encoded.unknown.empty() && !encoded.text.empty() &&
                            !fault_of_labels(line.lang, encoded.labels, "");
      has_text_fault_[row] = is_whole ? 0 : 1;
      num_labels_[row] = static_cast<uint32_t>(std::ssize(encoded.labels) + num_prompt());
    }
  });
}

// Returns the length of the longest file that is accepted for a line of that duration; resampling
// may round up by one.
int64_t Dataset::most_samples(double seconds) const {
  return num_samples(seconds + duration_tolerance_s(seconds)) + 1;
}

int64_t Dataset::num_samples(double seconds) const {
  const double slowest =
      treatment_.augmentation != nullptr ? treatment_.augmentation->slowest() : 1.0;
  return static_cast<int64_t>(
      std::ceil(seconds / slowest * static_cast<double>(options_.sample_rate)));
}

// load() returns nothing longer than the model accepts.
int64_t Dataset::most_rows(int64_t samples) const {
  return options_.max_rows > 0 ? std::min(samples, options_.max_rows) : samples;
}

ExampleSize Dataset::size_of(int64_t index) const {
  const bool is_audio = manifest_.feature_dim() == 0;
  if (index >= std::ssize(utterances_)) {
    const Piece& piece = pieces_[static_cast<size_t>(index - std::ssize(utterances_))];
    return {.rows = is_audio ? most_rows(num_samples(double{piece.seconds}) + 1)
                             : int64_t{piece.num_frames},
            .labels = piece.num_labels};
  }
  const size_t utterance = utterances_[static_cast<size_t>(index)];
  const ManifestIndex::Columns& columns = manifest_.index().columns();
  return {.rows = is_audio ? most_rows(most_samples(double{columns.durations_s[utterance]}))
                           : int64_t{columns.num_frames[utterance]},
          .labels = num_labels_.empty() ? int64_t{columns.num_characters[utterance]}
                                        : int64_t{num_labels_[utterance]}};
}

int64_t Dataset::bytes_per_row() const {
  return std::max<int64_t>(manifest_.feature_dim(), 1) * int64_t{sizeof(float)};
}

int64_t Dataset::utterance_at(int64_t index) const {
  if (index < std::ssize(utterances_)) return int64_t{utterances_[static_cast<size_t>(index)]};
  return int64_t{pieces_[static_cast<size_t>(index - std::ssize(utterances_))].utterance};
}

std::string Dataset::where(int64_t utterance) const {
  return fmt::format("{}:{}", name(), manifest_.at(utterance).line);
}

std::vector<float> Dataset::lengths() const {
  std::vector<float> seconds;
  seconds.reserve(static_cast<size_t>(num_items()));
  for (const uint32_t utterance : utterances_)
    seconds.push_back(manifest_.index().columns().durations_s[utterance]);
  for (const Piece& piece : pieces_) seconds.push_back(piece.seconds);
  return seconds;
}

std::vector<int32_t> Dataset::labels_of(int64_t utterance) const {
  const Utterance line = manifest_.at(utterance);
  return with_prompt(line.lang, tokenizer_.encode(line.text).labels);
}

Dataset::Item Dataset::item_at(int64_t index) const {
  if (index < std::ssize(utterances_)) {
    const int64_t utterance = utterances_[static_cast<size_t>(index)];
    return {.utterance = utterance, .line = manifest_.at(utterance)};
  }
  const Piece& piece = pieces_[static_cast<size_t>(index - std::ssize(utterances_))];
  return {.utterance = piece.utterance,
          .piece = piece.number,
          .line = cut_utterance(manifest_.at(piece.utterance), piece.run)};
}

std::vector<float> Dataset::read_samples(const Utterance& line, int64_t index) const {
  if (treatment_.cache != nullptr) {
    if (std::optional<std::vector<float>> kept = treatment_.cache->find(index))
      return std::move(*kept);
  }
  std::vector<float> samples = read_audio(
      {.path = manifest_.path_of(line), .offset_s = line.offset_s, .duration_s = line.duration_s},
      options_.sample_rate, *shards_);
  if (treatment_.cache != nullptr) treatment_.cache->add(index, samples);
  return samples;
}

Example Dataset::read(const Item& item, int64_t index, int64_t epoch) const {
  const Utterance& line = item.line;
  Tokenizer::Encoded encoded = tokenizer_.encode(line.text);
  Example example{.utterance = item.utterance,
                  .piece = item.piece,
                  .rows = line.num_frames,
                  .feature_dim = line.feature_dim,
                  .seconds = line.duration_s,
                  .labels = with_prompt(line.lang, std::move(encoded.labels)),
                  .reference = tokenizer_.decoded_form(encoded.text),
                  .speaker = line.speaker,
                  .lang = line.lang};
  if (line.feature_dim > 0) {
    example.values = read_features({.path = manifest_.path_of(line),
                                    .frame_offset = line.frame_offset,
                                    .num_frames = line.num_frames,
                                    .feature_dim = line.feature_dim});
  } else {
    example.values = read_samples(line, index);
    if (treatment_.augmentation != nullptr)
      treatment_.augmentation->apply(example.values, item.utterance, epoch);
    example.rows = std::ssize(example.values);
  }
  return example;
}

DataError Dataset::error_of(const Utterance& utterance, const DataError& error) const {
  std::string found = error.what();
  if (found.ends_with('.')) found.pop_back();
  return DataError(
      {.attempted = fmt::format("loading line {} of {}", utterance.line, name()),
       .found = std::move(found),
       .hint = options_.broken == Policy::kError ? skip_hint("broken", "utterances") : ""});
}

std::variant<Example, SkippedUtterance> Dataset::load(int64_t index, int64_t epoch) const {
  const Item item = item_at(index);
  Example example;
  try {
    example = read(item, index, epoch);
  } catch (const DataError& error) {
    if (options_.broken == Policy::kError) throw error_of(item.line, error);
    return SkippedUtterance{.utterance = item.utterance,
                            .reason = error_of(item.line, error).what()};
  }
  const bool is_too_long = options_.max_rows > 0 && example.rows > options_.max_rows;
  if (example.rows >= options_.min_rows && !is_too_long) return example;
  const Fault fault = is_too_long ? too_many_rows(example.rows) : too_few_rows(example.rows);
  if (fault.policy == Policy::kError) throw error_of(item.line, fault, "");
  return SkippedUtterance{.utterance = item.utterance,
                          .reason = error_of(item.line, fault, "").what()};
}

}  // namespace sotto::data
