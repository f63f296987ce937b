#include "sotto/data/manifest/manifest_columns.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/files/output_file.h"

namespace sotto::data {

namespace {

// The file disappears when it is closed, even after a crash.
int open_without_name(const std::filesystem::path& folder) {
  const int unnamed = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (unnamed >= 0) return unnamed;
  // Not every file system supports unnamed files.
  std::string pattern = (folder / ".sotto-columns-XXXXXX").string();
  const int named = mkostemp(pattern.data(), O_CLOEXEC);
  if (named < 0) throw_file_error("creating a file in", folder);
  ::unlink(pattern.c_str());
  return named;
}

}  // namespace

std::span<const std::byte> ManifestColumns::bytes_of(size_t column) const {
  switch (column) {
    case 0: return std::as_bytes(std::span(offsets));
    case kNumBytes: return std::as_bytes(std::span(num_bytes));
    case kHashes: return std::as_bytes(std::span(hashes));
    case 3: return std::as_bytes(std::span(lines));
    case 4: return std::as_bytes(std::span(durations_s));
    case 5: return std::as_bytes(std::span(num_frames));
    case 6: return std::as_bytes(std::span(num_characters));
    default: break;
  }
  SOTTO_ASSERT(false, "column {} of {}", column, kCount);
  return {};
}

ColumnStore::ColumnStore(const std::filesystem::path& folder)
    : folder_(folder), descriptor_(open_without_name(folder)) {}

ColumnStore::~ColumnStore() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void ColumnStore::add(ManifestColumns piece) {
  Piece added{.num_utterances = piece.offsets.size(), .offset = file_bytes_};
  for (size_t column = 0; column < ManifestColumns::kCount && descriptor_ >= 0; ++column) {
    std::span<const std::byte> bytes = piece.bytes_of(column);
    while (!bytes.empty()) {
      const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), file_bytes_);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) throw_file_error("writing a file in", folder_);
      bytes = bytes.subspan(static_cast<size_t>(written));
      file_bytes_ += written;
    }
  }
  if (descriptor_ < 0) added.columns = std::move(piece);
  num_utterances_ += added.num_utterances;
  pieces_.push_back(std::move(added));
}

std::vector<std::byte> ColumnStore::read(size_t piece, size_t column) const {
  const Piece& from = pieces_.at(piece);
  if (from.columns) {
    const std::span<const std::byte> bytes = from.columns->bytes_of(column);
    return {bytes.begin(), bytes.end()};
  }
  int64_t offset = from.offset;
  for (size_t before = 0; before < column; ++before)
    offset += static_cast<int64_t>(from.num_utterances * ManifestColumns::kWidths[before]);
  std::vector<std::byte> bytes(from.num_utterances * ManifestColumns::kWidths[column]);
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t got = ::pread(descriptor_, bytes.data() + done, bytes.size() - done,
                                offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) errno = EIO;
    if (got <= 0) throw_file_error("reading a file in", folder_);
    done += static_cast<size_t>(got);
  }
  return bytes;
}

}  // namespace sotto::data
