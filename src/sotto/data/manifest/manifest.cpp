#include "sotto/data/manifest/manifest.h"

#include "sotto/core/error.h"
#include "sotto/core/hash.h"

namespace sotto::data {

Manifest Manifest::read(const std::filesystem::path& path, const IndexOptions& options) {
  ManifestIndex index = ManifestIndex::open(path, options);
  // Opened after the index: changes in between are detected by the hashes of the lines.
  InputFile file = InputFile::open(path, "a manifest");
  return Manifest(
      std::make_shared<const Opened>(Opened{.file = std::move(file), .index = std::move(index)}));
}

std::filesystem::path Manifest::path_of(const Utterance& utterance) const {
  return path().parent_path() / utterance.file;  // an absolute path is unchanged
}

std::string Manifest::line_of(int64_t utterance) const {
  SOTTO_ASSERT(utterance >= 0 && utterance < size(), "utterance {} of {}", utterance, size());
  const auto position = static_cast<size_t>(utterance);
  const ManifestIndex::Columns& columns = index().columns();
  const uint64_t offset = columns.offsets[position];
  const uint64_t num_bytes = columns.num_bytes[position];
  const auto size = static_cast<uint64_t>(opened_->file.size());
  // An index that was modified on disk may hold any value.
  if (num_bytes > size || offset > size - num_bytes) refuse_line(position);
  std::string line(num_bytes, '\0');
  const int64_t got = opened_->file.read(static_cast<int64_t>(offset), line);
  if (got != std::ssize(line) ||
      static_cast<uint32_t>(hash_bytes(line)) != columns.hashes[position])
    refuse_line(position);
  return line;
}

void Manifest::refuse_line(size_t position) const {
  throw DataError({.attempted = fmt::format("reading {}", path().string()),
                   .found = fmt::format("line {} has changed since the manifest was opened",
                                        index().columns().lines[position]),
                   .expected = "a manifest that does not change while it is used",
                   .hint = "Write a changed manifest to a new file, or start again."});
}

Utterance Manifest::at(int64_t utterance) const {
  std::variant<Utterance, LineFault> parsed = parse_manifest_line(line_of(utterance));
  const auto position = static_cast<size_t>(utterance);
  auto* found = std::get_if<Utterance>(&parsed);
  if (found == nullptr) refuse_line(position);
  found->line = index().columns().lines[position];
  return std::move(*found);
}

double Manifest::duration_s(int64_t utterance) const {
  return double{index().columns().durations_s[static_cast<size_t>(utterance)]};
}

DataError Manifest::error_of(const BadLine& bad, const std::string& more) const {
  return DataError({.attempted = fmt::format("reading {}", path().string()),
                    .found = fmt::format("line {}: {}", bad.line, bad.fault.found),
                    .expected = bad.fault.expected,
                    .hint = bad.fault.hint + more});
}

void Manifest::refuse_bad_lines() const {
  if (!index().bad_lines().empty()) throw error_of(index().bad_lines().front());
}

}  // namespace sotto::data
