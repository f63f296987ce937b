// One pass over a manifest on all cores: what its index is made of.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "sotto/core/files/input_file.h"
#include "sotto/data/manifest/manifest_columns.h"
#include "sotto/data/manifest/manifest_index.h"

namespace sotto::data {

// What is small, whatever the manifest is.
struct ManifestScan {
  // Of bad lines the text is kept for so many: whoever has more has given us another file.
  static constexpr size_t kMostBadLines = 1000;

  int64_t feature_dim = 0;
  int64_t num_lines = 0;
  std::vector<BadLine> bad_lines = {};
  int64_t num_bad_lines = 0;
  std::set<char32_t> characters = {};
};

// Whatever a line holds, the scan goes on behind it. `take` gets the columns piece by piece, in
// their order, from one thread at a time; what it throws is passed on. Throws DataError where the
// system cannot read, and for lines so long that this is no manifest.
ManifestScan scan_manifest(const InputFile& file, const IndexOptions& options,
                           const std::function<void(ManifestColumns)>& take);

}  // namespace sotto::data
