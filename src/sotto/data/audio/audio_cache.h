// Decoded audio that was needed once and will be needed again in the next epoch: in memory, or in a
// file that is gone when the process ends. It takes in until it is full and then stays as it is:
// every utterance comes once an epoch, so none is worth more than another.
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

// All may be called from several threads.
class AudioCache {
 public:
  // The file of kDisk is made in `folder`. Throws DataError where it cannot be.
  AudioCache(CacheKind kind, int64_t max_bytes, const std::filesystem::path& folder);
  ~AudioCache();
  AudioCache(const AudioCache&) = delete;
  AudioCache& operator=(const AudioCache&) = delete;

  // As they were added; none where they are not there.
  std::optional<std::vector<float>> find(int64_t utterance) const;

  // Where there is room. A disk that is full ends the taking in, and nothing else.
  void add(int64_t utterance, const std::vector<float>& samples);

  int64_t used_bytes() const;

  // Forgets everything and gives the memory, or the disk, back; returns how many bytes. Afterwards
  // it takes in again, or nothing any more.
  enum class Afterwards { kTakesIn, kStaysEmpty };
  int64_t release(Afterwards afterwards);

 private:
  struct Place {
    int64_t offset = 0;
    int64_t num_samples = 0;
  };

  CacheKind kind_;
  int64_t max_bytes_;
  // Of the file; it has no name any more.
  int descriptor_ = -1;
  mutable std::mutex mutex_;
  // Under the mutex.
  int64_t used_bytes_ = 0;
  // Where the next utterance goes in the file. It only grows: what a thread still writes or reads
  // when everything is released lies where nothing else will.
  int64_t next_offset_ = 0;
  int64_t num_releases_ = 0;
  bool is_full_ = false;
  // Shared, so that a reader copies outside of the mutex.
  std::unordered_map<int64_t, std::shared_ptr<const std::vector<float>>> in_memory_;
  std::unordered_map<int64_t, Place> on_disk_;
};

}  // namespace sotto::data
