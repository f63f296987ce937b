// An open audio file, on disk or in a tar archive. Part of audio.cpp: nothing else includes it.
// sound_file.cpp reads with libsndfile; sound_file_none.cpp, for a build without it, reads 16-bit
// WAV and FLAC with our own readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sotto/data/audio/audio.h"
#include "sotto/data/audio/audio_source.h"

namespace sotto::data {

class SoundFile {
 public:
  // The archive of a path such as "a.tar:b.flac" is looked up in `shards`, which must outlive this
  // object. Throws DataError if the file cannot be read, ConfigError if this build does not support
  // its format.
  SoundFile(const std::filesystem::path& path, TarShards& shards);
  ~SoundFile();

  // Not copied or moved: readers hold its address.
  SoundFile(const SoundFile&) = delete;
  SoundFile& operator=(const SoundFile&) = delete;

  const AudioInfo& info() const { return info_; }
  bool is_flac() const { return is_flac_; }
  // Returns the number of frames in the header. For a truncated WAV file it is larger than
  // info().frames, which counts the frames in the file.
  int64_t promised_frames() const { return promised_frames_; }
  // Returns whether the header specifies the length; streams may not.
  bool knows_length() const { return info_.frames >= 0 && info_.frames < kUnknownFrames; }
  double seconds_of(int64_t frames) const {
    return static_cast<double>(frames) / static_cast<double>(info_.sample_rate);
  }

  // Moves to a frame; returns false if that is not possible.
  bool seek(int64_t frame);
  // Returns up to `most` frames from the current position, with the channels averaged; fewer at the
  // end of the file.
  std::vector<float> read(int64_t most);

  // Reads the whole file into `room` and returns its bytes; empty if that fails.
  std::span<const std::byte> bytes(std::unique_ptr<std::byte[]>& room) const {
    return source_.bytes(room);
  }

  using Fault = AudioError::Kind;
  [[noreturn]] void refuse(const std::string& found, const std::string& expected,
                           const std::string& hint = {}, Fault fault = Fault::kUnreadable) const {
    source_.refuse(found, expected, hint, fault);
  }

 private:
  static constexpr int64_t kUnknownFrames = std::numeric_limits<int64_t>::max();
  struct Reader;

  AudioSource source_;
  AudioInfo info_;
  int64_t promised_frames_ = 0;
  bool is_flac_ = false;
  std::unique_ptr<Reader> reader_;
};

}  // namespace sotto::data
