// Reads the bytes of an audio file, on disk or in a tar archive, and reports errors that name it.
// Part of sound_file.h; shared by builds with and without libsndfile.
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

  // `expected` completes error messages. The archive of a path such as "a.tar:b.flac" is looked up
  // in `shards`, which must outlive this object. Throws AudioError if the file is missing, empty,
  // not a regular file, or in a format that only ffmpeg reads.
  AudioSource(const std::filesystem::path& path, TarShards& shards, std::string expected);

  AudioSource(const AudioSource&) = delete;
  AudioSource& operator=(const AudioSource&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const std::string& expected() const { return expected_; }
  // Returns the descriptor of a file on disk; std::nullopt for a file in an archive.
  std::optional<int> descriptor() const;
  // Returns the file's range in its archive.
  const FilePart& part() const { return part_; }

  // Returns the current size of the file; 0 if it cannot be determined.
  int64_t size() const;
  // Reads up to to.size() bytes at offset `at` and returns the number read. Does not move the file
  // position of the descriptor.
  int64_t read(int64_t at, std::span<char> to) const;
  // Reads the whole file into `room` and returns its bytes; empty if that fails.
  std::span<const std::byte> bytes(std::unique_ptr<std::byte[]>& room) const;

  // Throws AudioError if a header claims an implausible sample rate.
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
  // Set for a file in an archive.
  FilePart part_;
  // Set for a file on disk.
  std::optional<Descriptor> descriptor_;
};

}  // namespace sotto::data
