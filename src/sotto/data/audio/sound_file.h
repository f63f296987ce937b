// A file opened by libsndfile, on disk or in a tar archive. Part of audio.cpp: nothing else
// includes it, and a build without libsndfile has neither.
#pragma once

#include <sndfile.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "sotto/data/audio/audio_error.h"
#include "sotto/data/audio/tar_shards.h"

namespace sotto::data {

class SoundFile {
 public:
  // The archive of a path such as "a.tar:b.flac" is looked up in `shards`. Throws DataError. The
  // shards must outlive the file.
  SoundFile(const std::filesystem::path& path, TarShards& shards);

  // libsndfile keeps the address of the stream.
  SoundFile(const SoundFile&) = delete;
  SoundFile& operator=(const SoundFile&) = delete;

  SNDFILE* get() const { return file_.get(); }
  const SF_INFO& info() const { return info_; }
  // Number of frames claimed by the header. For a truncated WAV file this exceeds info(), which
  // libsndfile limits to the available frames.
  sf_count_t promised_frames() const { return promised_frames_; }
  // Returns whether the header's number of frames is valid; a stream may not know its length.
  bool knows_length() const { return info_.frames >= 0 && info_.frames < SF_COUNT_MAX; }
  double seconds_of(sf_count_t frames) const {
    return static_cast<double>(frames) / info_.samplerate;
  }

  // Reads all bytes of the file into `room`. Returns none if it can no longer be read completely.
  std::span<const std::byte> bytes(std::unique_ptr<std::byte[]>& room) const;

  using Fault = AudioError::Kind;
  [[noreturn]] void refuse(const std::string& found, const std::string& expected,
                           const std::string& hint = {}, Fault fault = Fault::kUnreadable) const;

 private:
  struct Close {
    void operator()(SNDFILE* file) const { sf_close(file); }
  };
  class Descriptor {
   public:
    explicit Descriptor(int number) : number_(number) {}
    ~Descriptor();
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int number() const { return number_; }

   private:
    int number_;
  };
  // A file in an archive, and the read position.
  struct Stream {
    FilePart part;
    sf_count_t at = 0;
  };
  friend struct StreamCalls;
  using Handle = std::unique_ptr<SNDFILE, Close>;

  int open_descriptor() const;
  Handle open_once();
  [[noreturn]] void refuse_format(const std::string& reason) const;

  std::filesystem::path path_;
  // For a file in an archive; other files use the descriptor.
  Stream stream_;
  std::optional<Descriptor> descriptor_;
  SF_INFO info_ = {};
  sf_count_t promised_frames_ = 0;
  Handle file_;
};

}  // namespace sotto::data
