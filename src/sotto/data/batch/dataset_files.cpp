// Checks of the files of a dataset without decoding: whether they exist, and whether they have
// changed.
#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "sotto/core/files/input_file.h"
#include "sotto/core/hash.h"
#include "sotto/core/parallel.h"
#include "sotto/core/rng.h"
#include "sotto/data/audio/audio.h"
#include "sotto/data/audio/features.h"
#include "sotto/data/batch/dataset.h"

namespace sotto::data {

namespace {

// Total bytes hashed over all files; each file gets an equal part. They are read in seconds, and
// training reads them soon anyway.
constexpr int64_t kMostHashedBytes = int64_t{512} << 20;
// Number of pieces that are read of a longer file, including the first and the last.
constexpr int64_t kPieces = 16;
constexpr int64_t kReadBytes = int64_t{1} << 20;
constexpr uint64_t kHashSeed = 1000;

// Returns indices of items, one in each of `count` equal parts, in ascending order.
std::vector<int64_t> choose_items(int64_t num_items, int64_t count) {
  const RandomStream stream({.seed = kHashSeed, .purpose = Purpose::kShuffle});
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = i * num_items / count;
    const int64_t size = (i + 1) * num_items / count - begin;
    const auto within =
        static_cast<int64_t>(stream.uniform(static_cast<uint64_t>(i)) * static_cast<float>(size));
    indices.push_back(begin + std::min(within, size - 1));
  }
  return indices;
}

// Hashes the bytes from `begin` to `end` as returned by `read(offset, bytes)`: all of them, or
// pieces of `most` bytes in total.
template <class Read>
uint64_t hash_range(int64_t begin, int64_t end, int64_t most, const Read& read) {
  const int64_t length = end - begin;
  const bool is_whole = length <= most;
  const int64_t piece = is_whole ? length : most / kPieces;
  std::vector<char> buffer(static_cast<size_t>(std::clamp<int64_t>(piece, 0, kReadBytes)));
  uint64_t hash = hash_combine(1, static_cast<uint64_t>(length));
  for (int64_t i = 0; i < (is_whole ? 1 : kPieces); ++i) {
    const int64_t offset = begin + (is_whole ? 0 : i * (length - piece) / (kPieces - 1));
    for (int64_t done = 0; done < piece; done += std::ssize(buffer)) {
      const auto size = static_cast<size_t>(std::min<int64_t>(piece - done, std::ssize(buffer)));
      const int64_t got = read(offset + done, std::span(buffer).first(size));
      hash = hash_combine(hash, hash_bytes({buffer.data(), static_cast<size_t>(got)}));
    }
  }
  return hash;
}

// A file, or a range of rows; a member of an archive is identified by its name in `path`.
struct HashedFile {
  std::filesystem::path path;
  int64_t begin = 0;
  // -1: to its end.
  int64_t end = -1;
};

uint64_t hash_file(const HashedFile& file, int64_t most, TarShards& shards) {
  if (const std::optional<TarMember> member = tar_member(file.path)) {
    const FilePart content = shards.find(*member);
    return hash_range(0, content.size, most, [&](int64_t offset, std::span<char> bytes) {
      return content.read(offset, bytes);
    });
  }
  const InputFile opened = InputFile::open(file.path, "a file of the training data");
  const int64_t end = file.end < 0 ? opened.size() : file.end;
  return hash_range(file.begin, end, most, [&](int64_t offset, std::span<char> bytes) {
    return opened.read(offset, bytes);
  });
}

}  // namespace

void Dataset::check_file(const Utterance& line) const {
  if (line.feature_dim == 0) {
    const std::filesystem::path path = manifest_.path_of(line);
    require_resampling(fmt::format("reading {}", path.string()),
                       static_cast<double>(audio_info(path, *shards_).sample_rate),
                       static_cast<double>(options_.sample_rate));
    return;
  }
  // If its last row exists, all of them do.
  read_features({.path = manifest_.path_of(line),
                 .frame_offset = line.frame_offset + std::max<int64_t>(0, line.num_frames - 1),
                 .num_frames = std::min<int64_t>(1, line.num_frames),
                 .feature_dim = line.feature_dim});
}

void Dataset::check_files() const {
  if (options_.broken != Policy::kError) return;
  parallel_for(num_items(), [&](int64_t index) {
    const Item item = item_at(index);
    try {
      check_file(item.line);
    } catch (const DataError& error) {
      throw error_of(item.line, error);
    }
  });
}

std::vector<FileHash> Dataset::hash_files(int64_t max_files) const {
  constexpr int64_t kHalfBytes = 2;
  // Keyed by path and start: segments of a recording share it.
  std::map<std::pair<std::string, int64_t>, HashedFile> files;
  for (const int64_t index : choose_items(num_items(), std::min(num_items(), max_files))) {
    const Utterance line = manifest_.at(utterance_at(index));
    HashedFile file{.path = manifest_.path_of(line)};
    // A file of features contains many utterances; .npy files have a header before their rows.
    if (line.feature_dim > 0 && file.path.extension() != ".npy") {
      file.begin = line.frame_offset * line.feature_dim * kHalfBytes;
      file.end = file.begin + line.num_frames * line.feature_dim * kHalfBytes;
    }
    files.try_emplace({line.file, file.begin}, file);
  }
  std::vector<std::pair<FileHash, const HashedFile*>> found;
  for (const auto& [key, file] : files) found.push_back({{.path = key.first}, &file});
  const int64_t most = kMostHashedBytes / std::max<int64_t>(1, std::ssize(found));
  parallel_for(std::ssize(found), [&](int64_t i) {
    auto& [result, file] = found[static_cast<size_t>(i)];
    try {
      result.hash = hash_file(*file, most, *shards_);
    } catch (const DataError&) {
      result.hash = 0;
    }
  });
  std::vector<FileHash> hashes;
  for (auto& [result, file] : found) hashes.push_back(std::move(result));
  return hashes;
}

}  // namespace sotto::data
