// Splits a manifest into train, dev and test: by speaker, so that no speaker is in two of them, or
// randomly. The same seed gives the same parts. Every utterance is in one of them, in the order of
// the manifest, with its line unchanged; only relative paths are adjusted if the parts are in
// another folder.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/config/options.h"

namespace sotto::data {

// Requested size of a part.
struct PartSize {
  // Fraction of the total duration.
  double share = 0.0;
  // Number of utterances.
  int64_t count = 0;

  bool is_empty() const { return share == 0.0 && count == 0; }
  // Parses "5%", "2.5%" or "200"; "0" for no such part. Throws ConfigError.
  static PartSize parse(std::string_view text);
  std::string to_string() const;
};

enum class SplitBy { kAuto, kSpeaker, kRandom };

// auto: by speaker if every utterance has one and there are at least as many as parts, otherwise
// randomly.
inline constexpr std::array kSplitBy = {Named<SplitBy>{"auto", SplitBy::kAuto},
                                        Named<SplitBy>{"speaker", SplitBy::kSpeaker},
                                        Named<SplitBy>{"random", SplitBy::kRandom}};

struct SplitOptions {
  PartSize dev = {.share = 0.05};
  PartSize test = {.share = 0.05};
  SplitBy by = SplitBy::kAuto;
  uint64_t seed = 1;
  // Folder for train.jsonl, dev.jsonl and test.jsonl.
  std::filesystem::path out = {};
};

struct SplitPart {
  std::string name;
  std::filesystem::path manifest;
  int64_t num_utterances = 0;
  // Number of named speakers.
  int64_t num_speakers = 0;
  double seconds = 0.0;
};

struct SplitResult {
  // The method that was used: kSpeaker or kRandom.
  SplitBy by = SplitBy::kAuto;
  // Train, dev, test, without those that were not requested.
  std::vector<SplitPart> parts;
};

// Throws DataError where the manifest cannot be read or a part cannot be written; ConfigError where
// it cannot be split as requested: too few speakers, parts larger than the whole, unknown speakers,
// or where the folder has a part of an older split.
SplitResult split_manifest(const std::filesystem::path& manifest, const SplitOptions& options);

}  // namespace sotto::data
