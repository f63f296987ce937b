// Location of an utterance's audio as written in manifests: a file, or
// "shards/audio_0.tar:name.flac", a file in a tar archive. Also recognises audio file names. Does
// not need the audio libraries.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace sotto::data {

struct TarMember {
  std::filesystem::path archive;
  std::string name;
};

// Returns the two sides of ".tar:"; std::nullopt if the path is a plain file.
std::optional<TarMember> tar_member(const std::filesystem::path& path);

// Returns the file on disk that holds the audio: the archive, or the path itself.
std::filesystem::path file_on_disk(const std::filesystem::path& path);

// Returns whether a name has an extension of a readable audio format: .wav, .flac, .ogg, .mp3 and
// similar.
bool has_audio_name(const std::filesystem::path& path);

// Returns whether a name has an extension of an audio or video format that requires ffmpeg: .m4a,
// .mp4, .webm, .mkv, ...
bool needs_ffmpeg(const std::filesystem::path& path);

// Returns the ffmpeg command that converts a file to a readable format.
std::string ffmpeg_line(const std::filesystem::path& path);

// Returns a word of a command line, quoted if a shell would change it.
std::string shell_word(const std::string& word);

}  // namespace sotto::data
