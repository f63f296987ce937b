#include "sotto/data/audio/audio_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace sotto::data {

namespace {

constexpr std::string_view kInside = ".tar:";

constexpr std::array<std::string_view, 14> kReadable = {".wav",  ".wave", ".flac", ".ogg", ".oga",
                                                        ".opus", ".mp3",  ".aiff", ".aif", ".au",
                                                        ".caf",  ".w64",  ".rf64", ".sph"};
constexpr std::array<std::string_view, 15> kForFfmpeg = {".m4a", ".m4b", ".mp4", ".aac", ".webm",
                                                         ".mkv", ".mka", ".mov", ".avi", ".wma",
                                                         ".wmv", ".amr", ".3gp", ".mpg", ".ts"};

std::string lower_extension(const std::filesystem::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char letter) { return std::tolower(letter); });
  return extension;
}

}  // namespace

std::optional<TarMember> tar_member(const std::filesystem::path& path) {
  const std::string& text = path.native();
  const size_t at = text.find(kInside);
  if (at == std::string::npos) return std::nullopt;
  const size_t end = at + kInside.size();
  return TarMember{.archive = text.substr(0, end - 1), .name = text.substr(end)};
}

std::filesystem::path file_on_disk(const std::filesystem::path& path) {
  const std::optional<TarMember> member = tar_member(path);
  return member ? member->archive : path;
}

bool has_audio_name(const std::filesystem::path& path) {
  return std::ranges::find(kReadable, lower_extension(path)) != kReadable.end();
}

bool needs_ffmpeg(const std::filesystem::path& path) {
  return std::ranges::find(kForFfmpeg, lower_extension(path)) != kForFfmpeg.end();
}

std::string ffmpeg_line(const std::filesystem::path& path) {
  std::filesystem::path made = path;
  made.replace_extension(".flac");
  // -vn drops video; networks expect one channel at 16 kHz.
  return fmt::format("ffmpeg -i {} -vn -ac 1 -ar 16000 {}", shell_word(path.string()),
                     shell_word(made.string()));
}

std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=+,@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char letter : word)
    quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return quoted + "'";
}

}  // namespace sotto::data
