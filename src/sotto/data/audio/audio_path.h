// Where an utterance's audio lies, as manifests write it: a file, or
// "shards/audio_0.tar:name.flac", a file inside of a tar archive. And which names are audio at all.
// Nothing here needs the audio libraries.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace sotto::data {

struct TarMember {
  std::filesystem::path archive;
  std::string name;
};

// The two sides of ".tar:"; none where the path is that of a plain file.
std::optional<TarMember> tar_member(const std::filesystem::path& path);

// The file on the disk that holds the audio: the archive, or the path itself.
std::filesystem::path file_on_disk(const std::filesystem::path& path);

// Whether a name ends as audio that can be read: .wav, .flac, .ogg, .mp3 and their like.
bool has_audio_name(const std::filesystem::path& path);

// Whether a name ends as audio or video that only ffmpeg reads: .m4a, .mp4, .webm, .mkv, ...
bool needs_ffmpeg(const std::filesystem::path& path);

// The line to type that makes a readable file of one that is not.
std::string ffmpeg_line(const std::filesystem::path& path);

// A word of a line to type, in quotes where a shell would change it.
std::string shell_word(const std::string& word);

}  // namespace sotto::data
