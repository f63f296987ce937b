// Speech augmentation that varies per epoch: tempo and noise. The result for an utterance depends
// only on the seed, its index in the manifest and the epoch, and its length is known before it is
// decoded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "sotto/core/config/options.h"
#include "sotto/core/rng.h"
#include "sotto/data/manifest/manifest.h"

namespace sotto::data {

struct AugmentationOptions {
  // Tempo factors, one of which is drawn, such as [0.9, 1.0, 1.1]; the pitch changes too. Empty:
  // the tempo is unchanged.
  std::vector<double> speeds = {};
  // Manifest of noise; empty: none is added.
  std::filesystem::path noise = {};
  // Fraction of the utterances to which noise is added.
  double noise_probability = 0.5;
  // Signal-to-noise ratio in dB, drawn between these two.
  double min_snr_db = 5.0;
  double max_snr_db = 20.0;

  void visit(OptionVisitor& visitor);
  void validate() const;  // throws ConfigError

  bool is_off() const { return speeds.empty() && noise.empty(); }
};

class Augmentation {
 public:
  // Opens the manifest of noise. Throws DataError where it is not a manifest of audio, ConfigError
  // for invalid options.
  Augmentation(const AugmentationOptions& options, uint64_t seed, int64_t sample_rate);

  // Returns the tempo factor of an utterance in an epoch; 1 if there are none.
  double speed(int64_t utterance, int64_t epoch) const;
  double slowest() const;

  // Augments samples at the sample rate. Throws DataError where the noise cannot be read.
  void apply(std::vector<float>& samples, int64_t utterance, int64_t epoch) const;

 private:
  // Purpose of a draw; each has its own random numbers.
  enum class Draw : uint64_t { kSpeed = 1, kNoise = 2 };
  RandomStream stream(Draw draw, int64_t utterance, int64_t epoch) const;
  void add_noise(std::vector<float>& samples, const RandomStream& draws) const;
  std::vector<float> read_noise(size_t num_samples, const RandomStream& draws) const;

  AugmentationOptions options_;
  uint64_t seed_;
  int64_t sample_rate_;
  std::optional<Manifest> noise_;
};

}  // namespace sotto::data
