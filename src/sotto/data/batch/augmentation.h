// Speech made different in each epoch: faster or slower, and with noise. What an utterance becomes
// follows from the seed, its place in the manifest and the epoch alone, and how long it becomes is
// known before it is decoded.
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
  // Factors of the tempo, one of which is drawn, such as [0.9, 1.0, 1.1]; pitch changes with it.
  // Empty: speech stays as fast as it is.
  std::vector<double> speeds = {};
  // Manifest of noise; empty: none is added.
  std::filesystem::path noise = {};
  // Share of the utterances that noise is added to.
  double noise_probability = 0.5;
  // How much louder speech is than noise, in dB, drawn between the two.
  double min_snr_db = 5.0;
  double max_snr_db = 20.0;

  void visit(OptionVisitor& visitor);
  void validate() const;  // throws ConfigError

  bool is_off() const { return speeds.empty() && noise.empty(); }
};

class Augmentation {
 public:
  // Opens the manifest of noise. Throws DataError where it is none of audio, ConfigError.
  Augmentation(const AugmentationOptions& options, uint64_t seed, int64_t sample_rate);

  // The factor of an utterance's tempo in an epoch; 1 where there are none.
  double speed(int64_t utterance, int64_t epoch) const;
  double slowest() const;

  // Changes samples at the sample rate. Throws DataError where the noise cannot be read.
  void apply(std::vector<float>& samples, int64_t utterance, int64_t epoch) const;

 private:
  // What is drawn for; each has numbers of its own.
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
