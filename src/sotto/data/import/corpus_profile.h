// Statistics of a corpus: lengths of all utterances from the manifest's index, and properties of
// the files (rates, channels, bytes) from a seeded sample of them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/data/manifest/manifest.h"

namespace sotto::data {

struct CorpusProfileOptions {
  // Number of files that are examined; 0: all.
  int64_t sample = 200;
  uint64_t seed = 1;
  // Receives the number of files done and the total to examine; called by one thread at a time.
  std::function<void(int64_t, int64_t)> on_progress = {};
};

// Summary of a set of numbers.
struct Distribution {
  static constexpr std::array kPercentiles = {1, 5, 25, 50, 75, 95, 99};

  double mean = 0.0;
  double min = 0.0;
  double max = 0.0;
  // In the order of kPercentiles, linearly interpolated.
  std::array<double, kPercentiles.size()> percentiles = {};

  // Requires at least one value.
  static Distribution of(std::vector<float> values);
  static Distribution of_counts(std::span<const uint32_t> values);
};

struct Histogram {
  double begin = 0.0;
  double width = 1.0;
  std::vector<int64_t> counts;

  // Returns at most `num_bins` bins of a round width.
  static Histogram of(std::span<const float> values, int64_t num_bins);
};

struct CorpusProfile {
  int64_t num_utterances = 0;
  int64_t num_bad_lines = 0;
  // 0 for audio.
  int64_t feature_dim = 0;
  double seconds = 0.0;
  Distribution durations_s;
  Distribution characters;
  Histogram histogram;
  // Number of distinct characters of the transcripts.
  int64_t num_characters = 0;
  int64_t num_empty_texts = 0;

  // Values of the sample. Files that could not be read are counted and described by the first of
  // them.
  int64_t num_sampled = 0;
  int64_t num_unreadable = 0;
  std::string first_unreadable;
  // Counts of formats such as "16000 Hz, 1 channel, .flac"; utterances by speaker and language.
  std::map<std::string, int64_t> forms;
  int64_t num_speakers = 0;
  std::map<std::string, int64_t> languages;
  // Bytes of the files on disk: those of the sample, scaled to all utterances by their seconds.
  int64_t estimated_bytes = 0;

  // Returns small below 10 hours, large above 100, otherwise medium.
  std::string_view size_class() const;
};

CorpusProfile profile_corpus(const Manifest& manifest, const CorpusProfileOptions& options);

}  // namespace sotto::data
