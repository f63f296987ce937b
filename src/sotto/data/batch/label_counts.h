// Numbers of labels of all transcripts of a manifest, stored in a file of the cache folder:
// encoding millions of texts takes minutes, and every start needs the counts. A file belongs to the
// contents of a manifest and of a tokenizer, whatever their paths.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace sotto::data {

// Manifests with fewer lines are encoded at every start.
inline constexpr int64_t kLeastStoredLines = 100'000;

struct LabelCounts {
  // By line of the manifest: its labels, and whether its text is empty or has unknown characters.
  std::vector<uint32_t> num_labels;
  std::vector<uint8_t> has_fault;
};

// Returns the file for a manifest and a tokenizer with these fingerprints.
std::filesystem::path label_counts_path(uint64_t manifest, uint64_t tokenizer);

// Returns the counts of a file; std::nullopt where it is missing, damaged or of another size.
std::optional<LabelCounts> read_label_counts(const std::filesystem::path& path, int64_t num_lines);

// Writes the counts; a run does without where they cannot be written.
void write_label_counts(const std::filesystem::path& path, const LabelCounts& counts);

}  // namespace sotto::data
