#include "sotto/data/audio/audio.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/units.h"
#include "sotto/data/audio/flac_decoder.h"
#include "sotto/data/audio/sound_file.h"
#include "sotto/data/audio/tar_shards.h"

namespace sotto::data {

namespace {

constexpr int64_t kAnyFrames = std::numeric_limits<int64_t>::max();

double rate_of(const AudioInfo& info) {
  return static_cast<double>(info.sample_rate);
}

[[noreturn]] void refuse_length(double found_s, const AudioSegment& segment,
                                const SoundFile& file) {
  file.refuse(fmt::format("{:.3f} s of audio", found_s),
              fmt::format("{} s as in the manifest, within {:.3f} s", segment.duration_s,
                          duration_tolerance_s(segment.duration_s)),
              "The manifest's duration is wrong, or the file is not the one it was made for.",
              SoundFile::Fault::kWrongLength);
}

// Moves to the segment's first frame and returns its index.
int64_t seek_to_segment(SoundFile& file, const AudioSegment& segment) {
  const double wanted = std::round(segment.offset_s.value_or(0.0) * rate_of(file.info()));
  if (wanted == 0.0) return 0;
  if (file.knows_length() && wanted >= static_cast<double>(file.info().frames)) {
    file.refuse(fmt::format("it ends at {:.3f} s", file.seconds_of(file.info().frames)),
                fmt::format("audio at {} s, where the segment starts", *segment.offset_s),
                "The manifest's offset is in seconds.");
  }
  const auto first = static_cast<int64_t>(wanted);
  if (!file.seek(first))
    file.refuse(fmt::format("it cannot seek to {} s", *segment.offset_s), "a seekable file");
  return first;
}

// Checks blocks without a branch per sample; check_finite() finds the sample if one is not finite.
bool are_finite(std::span<const float> samples) {
  constexpr uint32_t kInfinity = 0x7f800000, kMagnitude = 0x7fffffff;
  constexpr ptrdiff_t kAtOnce = 32;
  const float* at = samples.data();
  const float* const end = at + samples.size();
  uint32_t is_bad = 0;
  for (; end - at >= kAtOnce; at += kAtOnce) {
    for (ptrdiff_t i = 0; i < kAtOnce; ++i)
      is_bad |= (std::bit_cast<uint32_t>(at[i]) & kMagnitude) >= kInfinity ? 1u : 0u;
  }
  return is_bad == 0 && std::all_of(at, end, [](float x) { return std::isfinite(x); });
}

void check_finite(const std::vector<float>& samples, const SoundFile& file) {
  if (are_finite(samples)) return;
  const auto bad = std::ranges::find_if_not(samples, [](float x) { return std::isfinite(x); });
  file.refuse(fmt::format("sample {} is {}", bad - samples.begin(), *bad), "finite samples", {},
              SoundFile::Fault::kNotFinite);
}

// Number of frames to request. For a whole file one more than allowed, to detect a longer file.
int64_t frames_to_ask(const AudioSegment& segment, const AudioInfo& info) {
  constexpr double kMost = 1e15;  // a manifest may contain any number
  if (segment.duration_s == 0.0) return static_cast<int64_t>(kMost);
  const bool is_whole = !segment.offset_s.has_value();
  const double slack_s = is_whole ? duration_tolerance_s(segment.duration_s) : 0.0;
  const double frames = std::round((segment.duration_s + slack_s) * rate_of(info));
  return static_cast<int64_t>(std::min(frames, kMost)) + (is_whole ? 1 : 0);
}

// Number of frames that can be decoded and resampled within the segment's memory limit: a growing
// vector exists twice, and the resampled samples are added.
int64_t frames_that_fit(const AudioSegment& segment, const AudioInfo& info, int64_t sample_rate) {
  if (segment.max_bytes == 0) return kAnyFrames;
  const double ratio = static_cast<double>(sample_rate) / rate_of(info);
  return static_cast<int64_t>(static_cast<double>(segment.max_bytes) /
                              (sizeof(float) * (2.0 + ratio)));
}

[[noreturn]] void refuse_size(const AudioSegment& segment, const SoundFile& file, int64_t most) {
  const bool is_known = file.knows_length();
  file.refuse(
      fmt::format("{} of audio", is_known ? format_duration(file.seconds_of(file.info().frames))
                                          : "a stream without a length"),
      fmt::format("at most {}, which takes {} when decoded", format_duration(file.seconds_of(most)),
                  format_bytes(segment.max_bytes)),
      "Cut the file into shorter ones, or allow more memory.");
}

// Fast path: decodes a whole FLAC file at once. Returns std::nullopt if it does not apply or fails;
// the file's own reader then reports the error.
std::optional<std::vector<float>> decode_whole_flac(const SoundFile& file,
                                                    const AudioSegment& segment) {
  if (!file.is_flac() || segment.offset_s) return std::nullopt;
  std::unique_ptr<std::byte[]> room;
  return decode_flac(file.bytes(room), frames_to_ask(segment, file.info()));
}

[[noreturn]] void refuse_cut(const SoundFile& file, int64_t end) {
  file.refuse(fmt::format("{:.3f} s could be decoded", file.seconds_of(end)),
              fmt::format("{:.3f} s as its header says", file.seconds_of(file.promised_frames())),
              "The file is truncated or broken.");
}

// Requested frames and the number decoded.
struct Decoded {
  int64_t first, asked, got;
};

// Compares the decoded length with the file's header and the manifest.
void check_length(const Decoded& decoded, const AudioSegment& segment, const SoundFile& file) {
  const int64_t end = decoded.first + decoded.got;
  if (file.knows_length() && end < std::min(decoded.first + decoded.asked, file.info().frames))
    refuse_cut(file, end);
  if (decoded.got == 0) file.refuse("no samples", "audio", {}, SoundFile::Fault::kEmpty);
  const double found_s = file.seconds_of(decoded.got);
  const double tolerance_s = duration_tolerance_s(segment.duration_s);
  const bool is_as_long =
      segment.duration_s == 0.0 ||
      (found_s >= segment.duration_s - tolerance_s && found_s <= segment.duration_s + tolerance_s);
  // A manifest written after the file was truncated agrees with it; without one the header counts.
  if (is_as_long && segment.duration_s > 0.0) return;
  if (end < std::min(decoded.first + decoded.asked, file.promised_frames())) refuse_cut(file, end);
  if (!is_as_long) refuse_length(found_s, segment, file);
}

}  // namespace

std::vector<float> read_audio(const AudioSegment& segment, int64_t sample_rate, TarShards& shards) {
  SoundFile file(segment.path, shards);
  const AudioInfo& info = file.info();
  require_resampling(fmt::format("reading {}", segment.path.string()), rate_of(info),
                     static_cast<double>(sample_rate));
  // Checked first, to avoid decoding hours of audio for nothing.
  const double longest_s = segment.duration_s + duration_tolerance_s(segment.duration_s);
  if (!segment.offset_s && segment.duration_s > 0.0 && file.knows_length() &&
      file.seconds_of(info.frames) > longest_s)
    refuse_length(file.seconds_of(info.frames), segment, file);
  Decoded decoded{
      .first = seek_to_segment(file, segment), .asked = frames_to_ask(segment, info), .got = 0};
  const int64_t most = frames_that_fit(segment, info, sample_rate);
  const int64_t present = file.knows_length() ? info.frames - decoded.first : 0;
  if (std::min(decoded.asked, present) > most) refuse_size(segment, file, most);
  std::optional<std::vector<float>> fast = decode_whole_flac(file, segment);
  // One more than fits, to detect that a stream of unknown length is too long.
  std::vector<float> samples =
      fast ? std::move(*fast)
           : file.read(most == kAnyFrames ? decoded.asked : std::min(decoded.asked, most + 1));
  if (std::ssize(samples) > most) refuse_size(segment, file, most);
  decoded.got = std::ssize(samples);
  check_length(decoded, segment, file);
  check_finite(samples, file);
  return resample(std::move(samples), rate_of(info), static_cast<double>(sample_rate));
}

std::vector<float> read_audio(const AudioSegment& segment, int64_t sample_rate) {
  TarShards shards;
  return read_audio(segment, sample_rate, shards);
}

AudioInfo audio_info(const std::filesystem::path& path, TarShards& shards) {
  const SoundFile file(path, shards);
  if (!file.knows_length()) file.refuse("a stream without a length", "a file with a known length");
  const int64_t frames = file.info().frames;
  const double promised_s = file.seconds_of(file.promised_frames());
  if (promised_s - file.seconds_of(frames) > duration_tolerance_s(promised_s))
    refuse_cut(file, frames);
  return file.info();
}

AudioInfo audio_info(const std::filesystem::path& path) {
  TarShards shards;
  return audio_info(path, shards);
}

}  // namespace sotto::data
