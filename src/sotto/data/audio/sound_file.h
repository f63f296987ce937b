// An audio file that is open, on the disk or inside of a tar archive. Part of audio.cpp: nothing
// else includes it. sound_file.cpp reads by libsndfile; sound_file_none.cpp, of a build without it,
// reads 16-bit WAV and FLAC by our own readers.
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
  // The archive of a path such as "a.tar:b.flac" is looked up in `shards`. Throws DataError, and
  // ConfigError for a format that this build does not read. The shards must outlive the file.
  SoundFile(const std::filesystem::path& path, TarShards& shards);
  ~SoundFile();

  // Readers hold the address of what they read from.
  SoundFile(const SoundFile&) = delete;
  SoundFile& operator=(const SoundFile&) = delete;

  const AudioInfo& info() const { return info_; }
  bool is_flac() const { return is_flac_; }
  // Frames that the header promises. Of a WAV file that was cut short more than info() says, which
  // counts those that are there.
  int64_t promised_frames() const { return promised_frames_; }
  // Whether the header's number of frames means anything; a stream may not know its length.
  bool knows_length() const { return info_.frames >= 0 && info_.frames < kUnknownFrames; }
  double seconds_of(int64_t frames) const {
    return static_cast<double>(frames) / static_cast<double>(info_.sample_rate);
  }

  // Moves to a frame; false where the file cannot be entered there.
  bool seek(int64_t frame);
  // The frames from there on, channels averaged, until `most` are there or the file ends.
  std::vector<float> read(int64_t most);

  // All bytes of the file, in `room`. None where it can no longer be read whole.
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
