// The bytes of an audio file, on the disk or inside of a tar archive, and errors that name it. Part
// of sound_file.h: the same for every build, whoever decodes the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "sotto/data/audio/audio_error.h"
#include "sotto/data/audio/tar_shards.h"

namespace sotto::data {

class AudioSource {
 public:
  using Fault = AudioError::Kind;

  // `expected` is what errors ask for. The archive of a path such as "a.tar:b.flac" is looked up in
  // `shards`, which must outlive this. Throws AudioError where the file is missing, empty, not a
  // regular one, or of a format that only ffmpeg reads.
  AudioSource(const std::filesystem::path& path, TarShards& shards, std::string expected);

  AudioSource(const AudioSource&) = delete;
  AudioSource& operator=(const AudioSource&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const std::string& expected() const { return expected_; }
  // The descriptor of a file on the disk; none for a file inside of an archive.
  std::optional<int> descriptor() const;
  // The file's place inside of its archive.
  const FilePart& part() const { return part_; }

  // The file's current size; 0 where the system does not say.
  int64_t size() const;
  // The bytes from `at` on, as many as fit or as there are; returns how many. Leaves the place of
  // the descriptor alone.
  int64_t read(int64_t at, std::span<char> to) const;
  // All bytes of the file, in `room`. None where it can no longer be read whole.
  std::span<const std::byte> bytes(std::unique_ptr<std::byte[]>& room) const;

  // Refuses a header that claims a rate which no recording has.
  void check_sample_rate(int64_t rate) const;
  [[noreturn]] void refuse(const std::string& found, const std::string& expected,
                           const std::string& hint = {}, Fault fault = Fault::kUnreadable) const;

 private:
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

  int open_descriptor() const;

  std::filesystem::path path_;
  std::string expected_;
  // Of a file inside of an archive; of any other its descriptor.
  FilePart part_;
  std::optional<Descriptor> descriptor_;
};

}  // namespace sotto::data
