#include "sotto/data/import/corpus_check.h"
#include "sotto/core/files/atomic_folder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "sotto/core/error.h"
#include "sotto/core/hash.h"
#include "sotto/core/parallel.h"
#include "sotto/data/audio/audio.h"
#include "sotto/data/audio/audio_error.h"
#include "sotto/data/audio/features.h"
#include "sotto/data/audio/tar_shards.h"
#include "sotto/data/manifest/manifest_paths.h"
#include "sotto/data/manifest/manifest_writer.h"

namespace sotto::data {

namespace {

// Characters per second at which no language is spoken: whatever the rest of the corpus is like,
// such a transcript belongs to another recording.
constexpr double kSlowest = 0.5;
constexpr double kFastest = 50.0;

Fault fault_of(AudioError::Kind kind) {
  switch (kind) {
    case AudioError::Kind::kUnreadable: return Fault::kUnreadable;
    case AudioError::Kind::kEmpty: return Fault::kEmptyAudio;
    case AudioError::Kind::kNotFinite: return Fault::kNotFinite;
    case AudioError::Kind::kWrongLength: return Fault::kWrongDuration;
  }
  return Fault::kUnreadable;
}

// The results of one thread for one utterance.
struct Looked {
  std::vector<Finding> findings;
  // Labels per second, or characters without a tokenizer; std::nullopt if there is nothing to
  // compare.
  std::optional<double> rate;
  // Hash of the samples, or of their location if they were not read; equal hashes are duplicates.
  uint64_t source = 0;
};

class Inspector {
 public:
  Inspector(const Manifest& manifest, const CorpusCheckOptions& options)
      : manifest_(manifest), options_(options) {}

  Looked look(int64_t position) {
    const Utterance utterance = manifest_.at(position);
    Looked looked;
    looked.source =
        hash_combine(hash_bytes(utterance.file),
                     hash_bytes(fmt::format("{} {} {}", utterance.offset_s.value_or(0.0),
                                            utterance.frame_offset, utterance.duration_s)));
    const int64_t rows = look_at_source(utterance, looked);
    look_at_text(utterance, rows, looked);
    for (Finding& finding : looked.findings) {
      finding.utterance = position;
      finding.line = utterance.line;
    }
    return looked;
  }

 private:
  // Returns the number of samples or frames; 0 if they cannot be read.
  int64_t look_at_source(const Utterance& utterance, Looked& looked) {
    try {
      if (utterance.feature_dim > 0) {
        looked.source = hash_values(read_features({.path = manifest_.path_of(utterance),
                                                   .frame_offset = utterance.frame_offset,
                                                   .num_frames = utterance.num_frames,
                                                   .feature_dim = utterance.feature_dim}));
        return utterance.num_frames;
      }
      const std::vector<float> samples = read_audio({.path = manifest_.path_of(utterance),
                                                     .offset_s = utterance.offset_s,
                                                     .duration_s = utterance.duration_s,
                                                     .max_bytes = options_.max_audio_bytes},
                                                    options_.sample_rate, shards_);
      looked.source = hash_values(samples);
      if (std::optional<Finding> finding = fault_of_samples(samples))
        looked.findings.push_back(std::move(*finding));
      return std::ssize(samples);
    } catch (const AudioError& error) {
      looked.findings.push_back({.fault = fault_of(error.kind()), .detail = error.what()});
    } catch (const DataError& error) {
      looked.findings.push_back({.fault = Fault::kUnreadable, .detail = error.what()});
    }
    return 0;
  }

  // A copy has the same values, whatever its name.
  static uint64_t hash_values(const std::vector<float>& values) {
    return hash_bytes(
        {reinterpret_cast<const char*>(values.data()), sizeof(float) * values.size()});
  }

  void look_at_text(const Utterance& utterance, int64_t rows, Looked& looked) const {
    const auto add = [&](Fault fault, std::string detail) {
      looked.findings.push_back({.fault = fault, .detail = std::move(detail)});
    };
    const int64_t characters = num_characters(utterance.text);
    if (characters == 0) add(Fault::kEmptyText, "no transcript");
    const double per_second = static_cast<double>(characters) / utterance.duration_s;
    if (characters > 0 && (per_second < kSlowest || per_second > kFastest)) {
      add(Fault::kOddRate,
          fmt::format("{:.1f} characters per second ({} in {:.1f} s), expected {} "
                      "to {}",
                      per_second, characters, utterance.duration_s, kSlowest, kFastest));
    } else if (characters > 0) {
      looked.rate = per_second;
    }
    if (options_.tokenizer == nullptr) return;
    const Tokenizer::Encoded encoded = options_.tokenizer->encode(utterance.text);
    if (!encoded.unknown.empty()) {
      add(Fault::kUnknownText,
          fmt::format("not in the vocabulary: '{}'", fmt::join(encoded.unknown, "', '")));
    }
    if (!encoded.labels.empty() && looked.rate)
      looked.rate = static_cast<double>(encoded.labels.size()) / utterance.duration_s;
    if (!options_.num_frames || rows == 0) return;
    const int64_t frames = options_.num_frames(rows);
    const int64_t needed = num_ctc_frames(encoded.labels);
    if (needed > frames) {
      add(Fault::kTooManyLabels, fmt::format("{} labels need {} frames; the network has {}",
                                             encoded.labels.size(), needed, frames));
    }
  }

  // Counts code points except blanks: every byte that is not a continuation byte.
  static int64_t num_characters(std::string_view text) {
    return std::ranges::count_if(text, [](char byte) {
      const bool is_blank = byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
      return !is_blank && (static_cast<unsigned char>(byte) & 0xC0u) != 0x80u;
    });
  }

  // CTC needs a blank between equal labels.
  static int64_t num_ctc_frames(const std::vector<int32_t>& labels) {
    int64_t frames = std::ssize(labels);
    for (size_t i = 1; i < labels.size(); ++i) frames += labels[i] == labels[i - 1] ? 1 : 0;
    return frames;
  }

  const Manifest& manifest_;
  const CorpusCheckOptions& options_;
  TarShards shards_;
};

void add_duplicates(const Manifest& manifest, const std::vector<Looked>& all,
                    std::vector<Finding>& findings) {
  std::unordered_map<uint64_t, int64_t> first;
  for (int64_t position = 0; position < std::ssize(all); ++position) {
    const auto [seen, is_new] = first.emplace(all[static_cast<size_t>(position)].source, position);
    if (is_new) continue;
    const auto line = [&](int64_t of) {
      return int64_t{manifest.index().columns().lines[static_cast<size_t>(of)]};
    };
    findings.push_back({.fault = Fault::kDuplicate,
                        .utterance = position,
                        .line = line(position),
                        .detail = fmt::format("the same audio as in line {}", line(seen->second))});
  }
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Finds rates far from the median in units of the median deviation, on a logarithmic scale: twice
// as fast is as odd as half as fast. This reveals transcripts that belong to other recordings.
void add_odd_rates(const Manifest& manifest, const std::vector<Looked>& all, const char* unit,
                   std::vector<Finding>& findings) {
  constexpr size_t kFewest = 20;
  constexpr double kOdd = 6.0;
  std::vector<double> rates;
  for (const Looked& looked : all) {
    if (looked.rate) rates.push_back(std::log(*looked.rate));
  }
  if (rates.size() < kFewest) return;
  const double median = median_of(rates);
  for (double& rate : rates) rate = std::abs(rate - median);
  // Speakers differ by at least a tenth.
  const double deviation = std::max(1.4826 * median_of(rates), 0.1);
  for (int64_t position = 0; position < std::ssize(all); ++position) {
    const std::optional<double>& rate = all[static_cast<size_t>(position)].rate;
    if (!rate || std::abs(std::log(*rate) - median) <= kOdd * deviation) continue;
    findings.push_back(
        {.fault = Fault::kOddRate,
         .utterance = position,
         .line = int64_t{manifest.index().columns().lines[static_cast<size_t>(position)]},
         .detail = fmt::format("{:.1f} {} per second, the median is {:.1f}", *rate, unit,
                               std::exp(median))});
  }
}

}  // namespace

std::optional<Finding> fault_of_samples(const std::vector<float>& samples) {
  float peak = 0.0f;
  for (const float sample : samples) peak = std::max(peak, std::abs(sample));
  if (peak < kSilence) {
    return Finding{.fault = Fault::kSilent,
                   .detail = fmt::format("peak {:.5f}, expected at least {}", peak, kSilence)};
  }
  // Resampling rounds the edges of clipped samples.
  constexpr float kFullScale = 0.999f;
  int64_t clipped = 0;
  int64_t run = 0;
  for (const float sample : samples) {
    run = std::abs(sample) >= kFullScale ? run + 1 : 0;
    if (run >= 3) clipped += run == 3 ? 3 : 1;
  }
  const double share = static_cast<double>(clipped) / static_cast<double>(samples.size());
  if (share <= kClippedShare) return std::nullopt;
  return Finding{.fault = Fault::kClipped,
                 .detail = fmt::format("{:.2f} % of the samples are at full scale", 100.0 * share)};
}

int64_t CorpusCheck::count(Fault fault) const {
  return std::ranges::count(findings, fault, &Finding::fault) +
         (fault == Fault::kBrokenLine ? num_unlisted : 0);
}

std::vector<int64_t> CorpusCheck::clean() const {
  std::vector<bool> has_finding(static_cast<size_t>(num_utterances));
  for (const Finding& finding : findings) {
    if (finding.utterance >= 0) has_finding[static_cast<size_t>(finding.utterance)] = true;
  }
  std::vector<int64_t> positions;
  for (int64_t position = 0; position < num_utterances; ++position) {
    if (!has_finding[static_cast<size_t>(position)]) positions.push_back(position);
  }
  return positions;
}

CorpusCheck check_corpus(const Manifest& manifest, const CorpusCheckOptions& options) {
  Inspector inspector(manifest, options);
  std::vector<Looked> all(static_cast<size_t>(manifest.size()));
  std::mutex mutex;
  int64_t num_done = 0;
  parallel_for(
      manifest.size(),
      [&](int64_t position) {
        all[static_cast<size_t>(position)] = inspector.look(position);
        const std::lock_guard lock(mutex);
        ++num_done;
        if (options.on_progress) options.on_progress(num_done, manifest.size());
      },
      options.num_threads);

  CorpusCheck check;
  check.num_utterances = manifest.size();
  for (int64_t position = 0; position < manifest.size(); ++position)
    check.seconds += manifest.duration_s(position);
  for (const BadLine& bad : manifest.index().bad_lines()) {
    check.findings.push_back(
        {.line = bad.line,
         .detail = fmt::format("{}, expected {}", bad.fault.found, bad.fault.expected)});
  }
  check.num_unlisted = manifest.index().num_bad_lines() - std::ssize(check.findings);
  for (const Looked& looked : all)
    check.findings.insert(check.findings.end(), looked.findings.begin(), looked.findings.end());
  add_duplicates(manifest, all, check.findings);
  add_odd_rates(manifest, all, options.tokenizer != nullptr ? "labels" : "characters",
                check.findings);
  std::ranges::stable_sort(check.findings, {}, &Finding::line);
  return check;
}

void write_clean(const Manifest& manifest, const CorpusCheck& check,
                 const std::filesystem::path& path) {
  check_is_another(path, manifest.path());
  ManifestWriter writer(path);
  ManifestPaths paths(path.parent_path());
  for (const int64_t position : check.clean())
    writer.add_line(moved_line(manifest, position, paths));
  writer.finish();
}

}  // namespace sotto::data
