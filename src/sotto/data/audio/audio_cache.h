// Cache of decoded audio for later epochs: in memory, or in a file that is removed when the process
// ends. It accepts utterances until it is full and then stays unchanged: every utterance is used
// once per epoch, so none is more valuable than another.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "sotto/core/config/options.h"

namespace sotto::data {

enum class CacheKind { kNone, kMemory, kDisk };

inline constexpr std::array kCacheKinds = {Named<CacheKind>{"none", CacheKind::kNone},
                                           Named<CacheKind>{"memory", CacheKind::kMemory},
                                           Named<CacheKind>{"disk", CacheKind::kDisk}};

// All functions are thread-safe.
class AudioCache {
 public:
  // kDisk creates its file in `folder`. Throws DataError if that fails.
  AudioCache(CacheKind kind, int64_t max_bytes, const std::filesystem::path& folder);
  ~AudioCache();
  AudioCache(const AudioCache&) = delete;
  AudioCache& operator=(const AudioCache&) = delete;

  // Returns the samples as they were added; std::nullopt if they are not cached.
  std::optional<std::vector<float>> find(int64_t utterance) const;

  // Adds samples if there is room. A full disk stops further additions without an error.
  void add(int64_t utterance, const std::vector<float>& samples);

  int64_t used_bytes() const;

  // Clears the cache and frees the memory or disk space; returns the number of bytes freed.
  // Afterwards it either accepts utterances again or stays empty.
  enum class Afterwards { kTakesIn, kStaysEmpty };
  int64_t release(Afterwards afterwards);

 private:
  struct Entry {
    int64_t offset = 0;
    int64_t num_samples = 0;
  };

  CacheKind kind_;
  int64_t max_bytes_;
  // Descriptor of the file, which is already unlinked.
  int descriptor_ = -1;
  mutable std::mutex mutex_;
  // Guarded by the mutex.
  int64_t used_bytes_ = 0;
  // Offset of the next utterance in the file. It only grows: ranges that a thread still writes or
  // reads during a release are never reused.
  int64_t next_offset_ = 0;
  int64_t num_releases_ = 0;
  bool is_full_ = false;
  // Shared, so that a reader can copy without holding the mutex.
  std::unordered_map<int64_t, std::shared_ptr<const std::vector<float>>> in_memory_;
  std::unordered_map<int64_t, Entry> on_disk_;
};

}  // namespace sotto::data
