// One pass over a manifest on all cores: what its index is made of.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "sotto/core/input_file.h"
#include "sotto/data/manifest_index.h"

namespace sotto::data {

struct ManifestScan {
  // Of bad lines the text is kept for so many: whoever has more has given us another file.
  static constexpr size_t kMostBadLines = 1000;

  // One entry an utterance, as ManifestIndex::Columns describes them.
  std::vector<uint64_t> offsets = {};
  std::vector<uint32_t> num_bytes = {};
  std::vector<uint32_t> hashes = {};
  std::vector<uint32_t> lines = {};
  std::vector<float> durations_s = {};
  std::vector<uint32_t> num_frames = {};
  std::vector<uint32_t> num_characters = {};

  int64_t feature_dim = 0;
  int64_t num_lines = 0;
  std::vector<BadLine> bad_lines = {};
  int64_t num_bad_lines = 0;
  std::set<char32_t> characters = {};
};

// Whatever a line holds, the scan goes on behind it. Throws DataError where the system cannot read,
// and for lines so long that this is no manifest.
ManifestScan scan_manifest(const InputFile& file, const IndexOptions& options);

}  // namespace sotto::data
