// One pass over a manifest on all cores, from which its index is built.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "sotto/core/files/input_file.h"
#include "sotto/data/manifest/manifest_columns.h"
#include "sotto/data/manifest/manifest_index.h"

namespace sotto::data {

// The small results, of bounded size for any manifest.
struct ManifestScan {
  // Maximum number of bad lines whose text is kept: with more, the file is probably not a manifest.
  static constexpr size_t kMostBadLines = 1000;

  int64_t feature_dim = 0;
  int64_t num_lines = 0;
  std::vector<BadLine> bad_lines = {};
  int64_t num_bad_lines = 0;
  std::set<char32_t> characters = {};
};

// Scans a manifest; bad lines do not stop it. `take` receives the columns piece by piece, in order,
// from one thread at a time; its exceptions are passed on. Throws DataError where the file cannot
// be read, and for lines that are too long for a manifest.
ManifestScan scan_manifest(const InputFile& file, const IndexOptions& options,
                           const std::function<void(ManifestColumns)>& take);

}  // namespace sotto::data
