#include "sotto/data/import/corpus_profile.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>

#include "sotto/core/error.h"
#include "sotto/core/parallel.h"
#include "sotto/core/rng.h"
#include "sotto/data/audio/audio.h"
#include "sotto/data/audio/audio_path.h"

namespace sotto::data {

namespace {

namespace fs = std::filesystem;

// Returns the sorted indices of a sample; all of them if it is as large as the corpus.
std::vector<int64_t> draw_sample(int64_t size, const CorpusProfileOptions& options) {
  if (options.sample == 0 || options.sample >= size) {
    std::vector<int64_t> positions(static_cast<size_t>(size));
    std::iota(positions.begin(), positions.end(), int64_t{0});
    return positions;
  }
  // Floyd's algorithm needs only the memory of the sample: Bentley, "A sample of brilliance", 1987.
  const RandomStream stream({.seed = options.seed, .purpose = Purpose::kShuffle});
  std::set<int64_t> sample;
  for (int64_t last = size - options.sample; last < size; ++last) {
    const auto n = 2 * static_cast<uint64_t>(last);
    const uint64_t draw = uint64_t{stream.bits(n)} << 32U | stream.bits(n + 1);
    const auto position = static_cast<int64_t>(draw % static_cast<uint64_t>(last + 1));
    if (!sample.insert(position).second) sample.insert(last);
  }
  return {sample.begin(), sample.end()};
}

// Properties of one file.
struct LookedAt {
  std::string speaker;
  std::string lang;
  double duration_s = 0.0;
  // Empty if it could not be read.
  std::string form;
  std::string error;
  // This utterance's share of its file.
  double bytes = 0.0;
};

LookedAt look_at(const Manifest& manifest, int64_t position) {
  const Utterance utterance = manifest.at(position);
  LookedAt looked{.speaker = utterance.speaker,
                  .lang = utterance.lang,
                  .duration_s = utterance.duration_s,
                  .form = {},
                  .error = {}};
  const fs::path path = manifest.path_of(utterance);
  try {
    if (utterance.feature_dim > 0) {
      looked.form = fmt::format("features of dimension {}, {}", utterance.feature_dim,
                                path.extension().string());
      // Assumes half precision; other types are detected when they are loaded.
      looked.bytes = 2.0 * static_cast<double>(utterance.num_frames * utterance.feature_dim);
      if (!fs::exists(path)) throw DataError({.attempted = path.string(), .found = "no such file"});
      return looked;
    }
    const AudioInfo info = audio_info(path);
    looked.form =
        fmt::format("{} Hz, {} {}, {}", info.sample_rate, info.channels,
                    info.channels == 1 ? "channel" : "channels", path.extension().string());
    const double share = info.frames == 0 ? 0.0 : utterance.duration_s / info.seconds();
    if (!tar_member(path))
      looked.bytes = static_cast<double>(fs::file_size(path)) * std::min(share, 1.0);
  } catch (const DataError& error) {
    looked.form.clear();
    looked.error = error.what();
  } catch (const fs::filesystem_error& error) {
    looked.form.clear();
    looked.error = error.what();
  }
  return looked;
}

std::vector<LookedAt> look_at_sample(const Manifest& manifest,
                                     const CorpusProfileOptions& options) {
  const std::vector<int64_t> positions = draw_sample(manifest.size(), options);
  std::vector<LookedAt> all(positions.size());
  std::mutex mutex;
  int64_t num_done = 0;
  parallel_for(std::ssize(positions), [&](int64_t i) {
    all[static_cast<size_t>(i)] = look_at(manifest, positions[static_cast<size_t>(i)]);
    const std::lock_guard lock(mutex);
    ++num_done;
    if (options.on_progress) options.on_progress(num_done, std::ssize(positions));
  });
  return all;
}

void add_sample(CorpusProfile& profile, const std::vector<LookedAt>& sample) {
  std::set<std::string> speakers;
  double bytes = 0.0;
  double seconds = 0.0;
  for (const LookedAt& looked : sample) {
    if (!looked.speaker.empty()) speakers.insert(looked.speaker);
    if (!looked.lang.empty()) ++profile.languages[looked.lang];
    if (looked.form.empty()) {
      if (profile.num_unreadable++ == 0) profile.first_unreadable = looked.error;
      continue;
    }
    ++profile.forms[looked.form];
    bytes += looked.bytes;
    seconds += looked.duration_s;
  }
  profile.num_sampled = std::ssize(sample);
  profile.num_speakers = std::ssize(speakers);
  if (seconds > 0.0) profile.estimated_bytes = std::llround(bytes / seconds * profile.seconds);
}

// Returns 1, 2 or 5 times a power of ten.
double round_width(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double times : {1.0, 2.0, 5.0}) {
    if (times * power >= least) return times * power;
  }
  return 10.0 * power;
}

}  // namespace

namespace {

// Summarizes `size` sorted numbers; `at` returns the number at a position.
Distribution distribution_of(size_t size, double sum, const std::function<double(size_t)>& at) {
  SOTTO_ASSERT(size > 0, "a distribution of nothing");
  Distribution result;
  result.min = at(0);
  result.max = at(size - 1);
  result.mean = sum / static_cast<double>(size);
  for (size_t i = 0; i < Distribution::kPercentiles.size(); ++i) {
    const double position = Distribution::kPercentiles[i] / 100.0 * static_cast<double>(size - 1);
    const auto below = static_cast<size_t>(position);
    const size_t above = std::min(below + 1, size - 1);
    const double share = position - static_cast<double>(below);
    result.percentiles[i] = at(below) + share * (at(above) - at(below));
  }
  return result;
}

}  // namespace

Distribution Distribution::of(std::vector<float> values) {
  std::ranges::sort(values);
  return distribution_of(values.size(), std::accumulate(values.begin(), values.end(), 0.0),
                         [&](size_t position) { return double{values[position]}; });
}

// Counts have few distinct values, however many utterances there are.
Distribution Distribution::of_counts(std::span<const uint32_t> values) {
  std::map<uint32_t, size_t> times;
  for (const uint32_t value : values) ++times[value];
  return distribution_of(values.size(), std::accumulate(values.begin(), values.end(), 0.0),
                         [&](size_t position) {
                           auto found = times.begin();
                           for (size_t before = found->second; before <= position; ++found)
                             before += std::next(found)->second;
                           return static_cast<double>(found->first);
                         });
}

Histogram Histogram::of(std::span<const float> values, int64_t num_bins) {
  const auto [lowest, highest] = std::ranges::minmax(values);
  const double least = double{lowest};
  const double most = double{highest};
  Histogram histogram;
  histogram.width = round_width(std::max((most - least) / static_cast<double>(num_bins - 1), 1e-3));
  histogram.begin = std::floor(least / histogram.width) * histogram.width;
  const auto bin_of = [&](double value) {
    return static_cast<size_t>((value - histogram.begin) / histogram.width);
  };
  histogram.counts.assign(bin_of(most) + 1, 0);
  for (const float value : values) ++histogram.counts[bin_of(double{value})];
  return histogram;
}

std::string_view CorpusProfile::size_class() const {
  constexpr double kHour = 3600.0;
  if (seconds < 10.0 * kHour) return "small";
  return seconds > 100.0 * kHour ? "large" : "medium";
}

CorpusProfile profile_corpus(const Manifest& manifest, const CorpusProfileOptions& options) {
  const ManifestIndex& index = manifest.index();
  const ManifestIndex::Columns& columns = index.columns();
  CorpusProfile profile;
  profile.num_utterances = manifest.size();
  profile.num_bad_lines = index.num_bad_lines();
  profile.feature_dim = manifest.feature_dim();
  profile.num_characters = std::ssize(index.characters());
  const std::span<const float> durations = columns.durations_s;
  profile.seconds = std::accumulate(durations.begin(), durations.end(), 0.0);
  profile.durations_s = Distribution::of(std::vector<float>(durations.begin(), durations.end()));
  constexpr int64_t kBins = 16;
  profile.histogram = Histogram::of(durations, kBins);
  // A column of millions of lines is read once.
  index.release();
  profile.characters = Distribution::of_counts(columns.num_characters);
  profile.num_empty_texts = std::ranges::count(columns.num_characters, 0U);
  index.release();
  add_sample(profile, look_at_sample(manifest, options));
  return profile;
}

}  // namespace sotto::data
