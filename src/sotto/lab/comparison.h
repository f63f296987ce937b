// Results of one suite side by side, against a baseline, and how much two seeds of the same
// experiment differ: what is smaller than that is noise.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sotto/lab/result.h"

namespace sotto::lab {

// Relative differences between seeds, the most of any experiment that was repeated: 0.02 is 2 %.
struct Noise {
  std::string experiment;
  int64_t num_seeds = 0;
  double quality = 0.0;
  double seconds = 0.0;
};

// Quality of an experiment over its seeds.
struct Spread {
  int64_t num_seeds = 1;
  double mean = 0.0;
  double least = 0.0;
  double most = 0.0;
};

struct Comparison {
  std::string suite;
  Suite::Kind kind = Suite::Kind::kTraining;
  std::string dataset;
  // In the order in which they were asked for; without repetitions with other seeds.
  std::vector<Result> rows;
  // Absent where no experiment was repeated.
  std::optional<Noise> noise;
  // By the name of the experiment; for those with a quality.
  std::map<std::string, Spread> quality;

  // The first row that was completed; null where there is none.
  const Result* baseline() const;
  // Speed and memory relative to the baseline's; 0 where they are unknown.
  double speed_up(const Result& result) const;
  double memory_share(const Result& result) const;
  // Whether times, or qualities, differ by more than the noise; false where it is unknown.
  bool differs_in_time(const Result& a, const Result& b) const;
  bool differs_in_quality(const Result& a, const Result& b) const;
  // Returns the quality with the first seed; under limits, the mean over the seeds. None without
  // evaluation.
  std::optional<double> quality_of(const Result& result) const;

 private:
  double pace(const Result& result) const;
};

// "41.32", or for an error rate "7.10 %".
std::string quality_text(const Result& result, double quality);

// Name of an experiment that repeats another with a seed.
std::string repetition_name(const std::string& experiment, int64_t seed);

// Separates repetitions from the experiments, in the order of `names`; empty: as given. Throws
// ConfigError for a name without a result, with the nearest one.
Comparison compare_results(std::vector<Result> results, const std::vector<std::string>& names = {});

nlohmann::ordered_json comparison_json(const Comparison& comparison);

}  // namespace sotto::lab
