#include "sotto/data/audio/audio_cache.h"

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/files/log.h"
#include "sotto/core/files/output_file.h"

namespace sotto::data {

namespace {

bool write_at(int descriptor, const char* data, int64_t bytes, int64_t offset) {
  while (bytes > 0) {
    const ssize_t written = ::pwrite(descriptor, data, static_cast<size_t>(bytes), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    data += written;
    bytes -= written;
    offset += written;
  }
  return true;
}

bool read_at(int descriptor, char* data, int64_t bytes, int64_t offset) {
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor, data, static_cast<size_t>(bytes), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    data += got;
    bytes -= got;
    offset += got;
  }
  return true;
}

int64_t bytes_of(int64_t num_samples) {
  return num_samples * static_cast<int64_t>(sizeof(float));
}

}  // namespace

AudioCache::AudioCache(CacheKind kind, int64_t max_bytes, const std::filesystem::path& folder)
    : kind_(kind), max_bytes_(max_bytes) {
  if (kind_ != CacheKind::kDisk) return;
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  std::string pattern = (folder / "decoded-audio-XXXXXX").string();
  descriptor_ = ::mkstemp(pattern.data());
  if (descriptor_ < 0) throw_file_error("making", pattern);
  // An unlinked file disappears with the process, however that ends.
  ::unlink(pattern.c_str());
}

AudioCache::~AudioCache() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::optional<std::vector<float>> AudioCache::find(int64_t utterance) const {
  std::shared_ptr<const std::vector<float>> kept;
  Entry entry;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = in_memory_.find(utterance); found != in_memory_.end())
      kept = found->second;
    if (const auto found = on_disk_.find(utterance); found != on_disk_.end()) entry = found->second;
  }
  if (kept != nullptr) return *kept;
  if (entry.num_samples == 0) return std::nullopt;
  std::vector<float> samples(static_cast<size_t>(entry.num_samples));
  const bool is_read = read_at(descriptor_, reinterpret_cast<char*>(samples.data()),
                               bytes_of(entry.num_samples), entry.offset);
  if (!is_read) return std::nullopt;  // it is decoded again
  const std::lock_guard lock(mutex_);
  const auto found = on_disk_.find(utterance);
  // Released while it was read, and possibly added again at another offset.
  if (found == on_disk_.end() || found->second.offset != entry.offset) return std::nullopt;
  return samples;
}

void AudioCache::add(int64_t utterance, const std::vector<float>& samples) {
  const int64_t bytes = bytes_of(std::ssize(samples));
  Entry entry{.offset = 0, .num_samples = std::ssize(samples)};
  int64_t num_releases = 0;
  {
    const std::lock_guard lock(mutex_);
    const bool is_known = in_memory_.contains(utterance) || on_disk_.contains(utterance);
    if (is_full_ || is_known || bytes == 0) return;
    if (used_bytes_ + bytes > max_bytes_) {
      is_full_ = true;
      return;
    }
    entry.offset = next_offset_;
    next_offset_ += bytes;
    used_bytes_ += bytes;
    num_releases = num_releases_;
    if (kind_ == CacheKind::kMemory)
      in_memory_.emplace(utterance, std::make_shared<const std::vector<float>>(samples));
  }
  if (kind_ != CacheKind::kDisk) return;
  // Its range is exclusive: written without the mutex, and visible once it is complete.
  const bool is_written =
      write_at(descriptor_, reinterpret_cast<const char*>(samples.data()), bytes, entry.offset);
  const std::lock_guard lock(mutex_);
  if (num_releases != num_releases_) return;
  if (is_written) {
    on_disk_.emplace(utterance, entry);
  } else if (!is_full_) {
    is_full_ = true;
    spdlog::warn("the cache of decoded audio stays at {} bytes: {}", entry.offset,
                 std::generic_category().message(errno));
  }
}

int64_t AudioCache::release(Afterwards afterwards) {
  const std::lock_guard lock(mutex_);
  const int64_t released = std::exchange(used_bytes_, 0);
  ++num_releases_;
  in_memory_.clear();
  on_disk_.clear();
  is_full_ = false;
  if (afterwards == Afterwards::kStaysEmpty) max_bytes_ = 0;
  if (kind_ == CacheKind::kDisk && ::ftruncate(descriptor_, 0) != 0)
    spdlog::warn("could not release the {} bytes of cached audio: {}", released,
                 std::generic_category().message(errno));
  return released;
}

int64_t AudioCache::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_bytes_;
}

}  // namespace sotto::data
