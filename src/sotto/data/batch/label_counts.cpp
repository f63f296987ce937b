#include "sotto/data/batch/label_counts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <span>
#include <string_view>
#include <system_error>

#include "sotto/core/error.h"
#include "sotto/core/files/cache_folder.h"
#include "sotto/core/files/mapped_file.h"
#include "sotto/core/files/output_file.h"
#include "sotto/core/hash.h"

namespace sotto::data {

namespace {

namespace fs = std::filesystem;

// The last character is the version: of the format, and of how texts become labels.
constexpr uint64_t kMagic = 0x316c6562616c6f73;  // "solabel1"

// Before the counts, each of which is twice the number of labels, and one more with a fault.
struct Header {
  uint64_t magic = kMagic;
  uint64_t num_lines = 0;
  uint64_t hash = 0;
};

uint64_t hash_of(std::span<const std::byte> bytes) {
  return hash_bytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace

fs::path label_counts_path(uint64_t manifest, uint64_t tokenizer) {
  return cache_folder() / "labels" / fmt::format("{:016x}-{:016x}.counts", manifest, tokenizer);
}

std::optional<LabelCounts> read_label_counts(const fs::path& path, int64_t num_lines) {
  std::error_code failed;
  const auto count = static_cast<size_t>(num_lines);
  if (fs::file_size(path, failed) != sizeof(Header) + count * sizeof(uint32_t) || failed)
    return std::nullopt;
  try {
    const MappedFile file = MappedFile::open(path, "counts of labels");
    Header header;
    std::memcpy(&header, file.bytes().data(), sizeof(header));
    const std::span<const std::byte> stored = file.bytes().subspan(sizeof(header));
    if (header.magic != kMagic || header.num_lines != count || header.hash != hash_of(stored))
      return std::nullopt;
    LabelCounts counts{.num_labels = std::vector<uint32_t>(count),
                       .has_fault = std::vector<uint8_t>(count)};
    std::memcpy(counts.num_labels.data(), stored.data(), stored.size());
    for (size_t line = 0; line < count; ++line) {
      counts.has_fault[line] = counts.num_labels[line] & 1U;
      counts.num_labels[line] >>= 1U;
    }
    return counts;
  } catch (const DataError&) {
    return std::nullopt;
  }
}

void write_label_counts(const fs::path& path, const LabelCounts& counts) {
  std::vector<uint32_t> stored(counts.num_labels);
  for (size_t line = 0; line < stored.size(); ++line)
    stored[line] = stored[line] << 1U | counts.has_fault[line];
  const std::span<const std::byte> bytes = std::as_bytes(std::span(stored));
  const Header header{.num_lines = stored.size(), .hash = hash_of(bytes)};
  const fs::path aside = fmt::format("{}.{}", path.string(), getpid());
  std::error_code ignored;
  fs::create_directories(path.parent_path(), ignored);
  try {
    OutputFile file = OutputFile::create(aside);
    file.write(std::as_bytes(std::span(&header, 1)));
    file.write(bytes);
    file.close();
    std::error_code failed;
    fs::rename(aside, path, failed);
    if (failed) fs::remove(aside, ignored);
  } catch (const DataError&) {
    fs::remove(aside, ignored);
  }
}

}  // namespace sotto::data
