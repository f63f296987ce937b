#include "sotto/data/batch/augmentation.h"

#include <algorithm>
#include <cmath>

#include "sotto/core/error.h"
#include "sotto/data/audio/audio.h"

namespace sotto::data {

namespace {

double mean_square(const std::vector<float>& samples) {
  double sum = 0.0;
  for (const float sample : samples) sum += double{sample} * double{sample};
  return sum / static_cast<double>(samples.size());
}

[[noreturn]] void refuse(const std::string& found, const std::string& expected) {
  throw ConfigError(
      {.attempted = "setting up the augmentation", .found = found, .expected = expected});
}

}  // namespace

void AugmentationOptions::visit(OptionVisitor& visitor) {
  visitor.value("speeds", speeds, "speed factors, one drawn per utterance: [0.9, 1.0, 1.1]",
                {.min = 0.5, .max = 2.0});
  visitor.value("noise", noise, "manifest of noise recordings to add; empty: none");
  visitor.value("noise_probability", noise_probability, "fraction of utterances with added noise",
                {.min = 0.0, .max = 1.0});
  visitor.value("min_snr_db", min_snr_db, "minimum signal-to-noise ratio, in dB");
  visitor.value("max_snr_db", max_snr_db, "maximum signal-to-noise ratio, in dB");
}

void AugmentationOptions::validate() const {
  if (min_snr_db > max_snr_db)
    refuse(fmt::format("min_snr_db {} and max_snr_db {}", min_snr_db, max_snr_db),
           "min_snr_db of at most max_snr_db");
  const AugmentationOptions usual;
  const bool is_set = noise_probability != usual.noise_probability ||
                      min_snr_db != usual.min_snr_db || max_snr_db != usual.max_snr_db;
  if (noise.empty() && is_set) refuse("noise settings without noise", "a manifest under `noise`");
}

Augmentation::Augmentation(const AugmentationOptions& options, uint64_t seed, int64_t sample_rate)
    : options_(options), seed_(seed), sample_rate_(sample_rate) {
  options_.validate();
  const auto rate = static_cast<double>(sample_rate);
  for (const double speed : options_.speeds)
    require_resampling(fmt::format("applying data.augment.speeds, {}", speed), rate * speed, rate);
  if (options_.noise.empty()) return;
  noise_ = Manifest::read(options_.noise);
  noise_->refuse_bad_lines();
  if (noise_->feature_dim() == 0) return;
  throw DataError({.attempted = fmt::format("reading noise from {}", options_.noise.string()),
                   .found = "stored features",
                   .expected = "audio"});
}

RandomStream Augmentation::stream(Draw draw, int64_t utterance, int64_t epoch) const {
  // Greater than the numbers of masks, which are the layer indices of a network.
  constexpr uint64_t kAfterLayers = uint64_t{1} << 32U;
  return RandomStream({.seed = seed_,
                       .purpose = Purpose::kAugmentation,
                       .step = static_cast<uint64_t>(epoch),
                       .layer = kAfterLayers + static_cast<uint64_t>(draw)},
                      {.utterance = static_cast<uint64_t>(utterance)});
}

double Augmentation::speed(int64_t utterance, int64_t epoch) const {
  if (options_.speeds.empty()) return 1.0;
  return options_.speeds[stream(Draw::kSpeed, utterance, epoch).bits(0) % options_.speeds.size()];
}

double Augmentation::slowest() const {
  return options_.speeds.empty() ? 1.0 : std::ranges::min(options_.speeds);
}

void Augmentation::apply(std::vector<float>& samples, int64_t utterance, int64_t epoch) const {
  const double factor = speed(utterance, epoch);
  // Changes the tempo by treating the samples as recorded at another rate.
  const auto rate = static_cast<double>(sample_rate_);
  if (factor != 1.0) samples = resample(std::move(samples), rate * factor, rate);
  if (noise_ && !samples.empty()) add_noise(samples, stream(Draw::kNoise, utterance, epoch));
}

void Augmentation::add_noise(std::vector<float>& samples, const RandomStream& draws) const {
  if (!draws.bernoulli(0, options_.noise_probability)) return;
  const double speech = mean_square(samples);
  const std::vector<float> noise = read_noise(samples.size(), draws);
  const double power = mean_square(noise);
  if (power == 0.0 || speech == 0.0) return;
  const double snr_db =
      options_.min_snr_db + (options_.max_snr_db - options_.min_snr_db) * double{draws.uniform(1)};
  const auto gain = static_cast<float>(std::sqrt(speech / power * std::pow(10.0, -snr_db / 10.0)));
  for (size_t i = 0; i < samples.size(); ++i) samples[i] += gain * noise[i];
}

// Reads from a random position of a random recording; a short recording is repeated.
std::vector<float> Augmentation::read_noise(size_t num_samples, const RandomStream& draws) const {
  const Utterance line = noise_->at(draws.bits(2) % noise_->size());
  const double wanted_s = static_cast<double>(num_samples) / static_cast<double>(sample_rate_);
  const double spare_s = std::max(line.duration_s - wanted_s, 0.0);
  const double offset_s = line.offset_s.value_or(0.0) + spare_s * double{draws.uniform(3)};
  const std::vector<float> read = read_audio({.path = noise_->path_of(line),
                                              .offset_s = offset_s,
                                              .duration_s = std::min(wanted_s, line.duration_s)},
                                             sample_rate_);
  std::vector<float> noise(num_samples);
  for (size_t i = 0; i < num_samples; ++i) noise[i] = read[i % read.size()];
  return noise;
}

}  // namespace sotto::data
