#include "sotto/data/audio/audio.h"

#include <sndfile.h>
#include <soxr.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/units.h"
#include "sotto/data/audio/flac_decoder.h"
#include "sotto/data/audio/sound_file.h"
#include "sotto/data/audio/tar_shards.h"

namespace sotto::data {

namespace {

// Frames decoded at a time: the length in a header is not trusted for an allocation.
constexpr sf_count_t kFramesAtOnce = 16'384;
constexpr sf_count_t kMaxReservedFrames = 4'000'000;

[[noreturn]] void refuse_length(double found_s, const AudioSegment& segment,
                                const SoundFile& file) {
  file.refuse(fmt::format("{:.3f} s of audio", found_s),
              fmt::format("{} s as in the manifest, to {:.3f} s", segment.duration_s,
                          duration_tolerance_s(segment.duration_s)),
              "The manifest's duration is wrong, or the file is not the one it was made for.",
              SoundFile::Fault::kWrongLength);
}

// Moves the file to the segment's first frame and returns its position.
sf_count_t seek_to_segment(const SoundFile& file, const AudioSegment& segment) {
  const double wanted = std::round(segment.offset_s.value_or(0.0) * file.info().samplerate);
  if (wanted == 0.0) return 0;
  if (file.knows_length() && wanted >= static_cast<double>(file.info().frames)) {
    file.refuse(fmt::format("it ends at {:.3f} s", file.seconds_of(file.info().frames)),
                fmt::format("a segment from {} s on", *segment.offset_s),
                "The manifest's offset is in seconds.");
  }
  const auto first = static_cast<sf_count_t>(wanted);
  if (sf_seek(file.get(), first, SEEK_SET) != first)
    file.refuse(fmt::format("it cannot be entered at {} s", *segment.offset_s),
                "a file that can be read from any place");
  return first;
}

// Decodes the next frames, channels averaged, until there are `most` or the file ends.
std::vector<float> decode(const SoundFile& file, sf_count_t most) {
  const auto channels = static_cast<size_t>(file.info().channels);
  std::vector<float> block(channels == 1 ? 0 : static_cast<size_t>(kFramesAtOnce) * channels);
  std::vector<float> samples;
  samples.reserve(static_cast<size_t>(std::min({most, file.info().frames, kMaxReservedFrames})));
  while (std::ssize(samples) < most) {
    const size_t first = samples.size();
    const sf_count_t asked = std::min(kFramesAtOnce, most - std::ssize(samples));
    samples.resize(first + static_cast<size_t>(asked));
    float* into = channels == 1 ? samples.data() + first : block.data();
    const sf_count_t got = std::max<sf_count_t>(sf_readf_float(file.get(), into, asked), 0);
    samples.resize(first + static_cast<size_t>(got));
    for (size_t frame = 0; channels > 1 && frame < static_cast<size_t>(got); ++frame) {
      float sum = 0.0f;
      for (size_t c = 0; c < channels; ++c) sum += block[frame * channels + c];
      samples[first + frame] = sum / static_cast<float>(channels);
    }
    if (got < asked) break;
  }
  return samples;
}

// Checks many samples at a time; individual samples are examined only if one is not finite.
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

// Returns the number of frames to request: one more than a whole file may have, to detect a longer
// file.
sf_count_t frames_to_ask(const AudioSegment& segment, const SF_INFO& info) {
  constexpr double kMost = 1e15;  // a manifest may contain any number
  if (segment.duration_s == 0.0) return static_cast<sf_count_t>(kMost);
  const bool is_whole = !segment.offset_s.has_value();
  const double slack_s = is_whole ? duration_tolerance_s(segment.duration_s) : 0.0;
  const double frames = std::round((segment.duration_s + slack_s) * info.samplerate);
  return static_cast<sf_count_t>(std::min(frames, kMost)) + (is_whole ? 1 : 0);
}

// Returns the number of frames whose decoding and resampling fit into the segment's memory: while a
// vector grows, both the old and the new one exist, followed by the resampled samples.
sf_count_t frames_that_fit(const AudioSegment& segment, const SF_INFO& info, int64_t sample_rate) {
  if (segment.max_bytes == 0) return SF_COUNT_MAX;
  const double ratio = static_cast<double>(sample_rate) / info.samplerate;
  return static_cast<sf_count_t>(static_cast<double>(segment.max_bytes) /
                                 (sizeof(float) * (2.0 + ratio)));
}

[[noreturn]] void refuse_size(const AudioSegment& segment, const SoundFile& file, sf_count_t most) {
  const bool is_known = file.knows_length();
  file.refuse(
      fmt::format("{} of audio", is_known ? format_duration(file.seconds_of(file.info().frames))
                                          : "a stream without a length"),
      fmt::format("at most {}, which decoded take {}", format_duration(file.seconds_of(most)),
                  format_bytes(segment.max_bytes)),
      "Cut the file into shorter ones, or allow more memory.");
}

// Fast path for a whole FLAC file, which bypasses libsndfile's decoder. Returns std::nullopt for
// other files, or if libsndfile has to report an error.
std::optional<std::vector<float>> decode_whole_flac(const SoundFile& file,
                                                    const AudioSegment& segment) {
  const bool is_flac = (file.info().format & SF_FORMAT_TYPEMASK) == SF_FORMAT_FLAC;
  if (!is_flac || segment.offset_s) return std::nullopt;
  std::unique_ptr<std::byte[]> room;
  return decode_flac(file.bytes(room), frames_to_ask(segment, file.info()));
}

[[noreturn]] void refuse_cut(const SoundFile& file, sf_count_t end) {
  file.refuse(fmt::format("{:.3f} s could be decoded", file.seconds_of(end)),
              fmt::format("{:.3f} s as its header says", file.seconds_of(file.promised_frames())),
              "The file is cut short or broken.");
}

// Frames requested and frames decoded.
struct Decoded {
  sf_count_t first, asked, got;
};

// Compares the decoded length with the file's header and the manifest.
void check_length(const Decoded& decoded, const AudioSegment& segment, const SoundFile& file) {
  const sf_count_t end = decoded.first + decoded.got;
  if (file.knows_length() && end < std::min(decoded.first + decoded.asked, file.info().frames))
    refuse_cut(file, end);
  if (decoded.got == 0) file.refuse("no samples", "audio", {}, SoundFile::Fault::kEmpty);
  const double found_s = file.seconds_of(decoded.got);
  const double tolerance_s = duration_tolerance_s(segment.duration_s);
  const bool is_as_long =
      segment.duration_s == 0.0 ||
      (found_s >= segment.duration_s - tolerance_s && found_s <= segment.duration_s + tolerance_s);
  // A manifest created after the file was truncated agrees with it.
  if (is_as_long) return;
  if (end < std::min(decoded.first + decoded.asked, file.promised_frames())) refuse_cut(file, end);
  refuse_length(found_s, segment, file);
}

}  // namespace

std::vector<float> resample(std::vector<float> samples, double from, double to) {
  if (from == to || samples.empty()) return samples;
  const double ratio = to / from;
  // soxr rounds the length up or down; one more sample is harmless.
  std::vector<float> result(static_cast<size_t>(static_cast<double>(samples.size()) * ratio) + 2);
  const soxr_io_spec_t types = soxr_io_spec(SOXR_FLOAT32_I, SOXR_FLOAT32_I);
  const soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
  const soxr_runtime_spec_t one_thread = soxr_runtime_spec(1);  // the loader has enough threads
  size_t taken = 0;
  size_t made = 0;
  const soxr_error_t error =
      soxr_oneshot(from, to, 1, samples.data(), samples.size(), &taken, result.data(),
                   result.size(), &made, &types, &quality, &one_thread);
  SOTTO_ASSERT(error == nullptr, "soxr from {} to {} Hz: {}", from, to, error);
  result.resize(made);
  return result;
}

std::vector<float> read_audio(const AudioSegment& segment, int64_t sample_rate, TarShards& shards) {
  const SoundFile file(segment.path, shards);
  const SF_INFO& info = file.info();
  // Checked before hours of audio are decoded in vain.
  const double longest_s = segment.duration_s + duration_tolerance_s(segment.duration_s);
  if (!segment.offset_s && segment.duration_s > 0.0 && file.knows_length() &&
      file.seconds_of(info.frames) > longest_s)
    refuse_length(file.seconds_of(info.frames), segment, file);
  Decoded decoded{
      .first = seek_to_segment(file, segment), .asked = frames_to_ask(segment, info), .got = 0};
  const sf_count_t most = frames_that_fit(segment, info, sample_rate);
  const sf_count_t present = file.knows_length() ? info.frames - decoded.first : 0;
  if (std::min(decoded.asked, present) > most) refuse_size(segment, file, most);
  std::optional<std::vector<float>> fast = decode_whole_flac(file, segment);
  // One frame more than fits reveals that a stream of unknown length is too long.
  std::vector<float> samples =
      fast ? std::move(*fast)
           : decode(file, most == SF_COUNT_MAX ? decoded.asked : std::min(decoded.asked, most + 1));
  if (std::ssize(samples) > most) refuse_size(segment, file, most);
  decoded.got = std::ssize(samples);
  check_length(decoded, segment, file);
  check_finite(samples, file);
  return resample(std::move(samples), info.samplerate, static_cast<double>(sample_rate));
}

std::vector<float> read_audio(const AudioSegment& segment, int64_t sample_rate) {
  TarShards shards;
  return read_audio(segment, sample_rate, shards);
}

AudioInfo audio_info(const std::filesystem::path& path, TarShards& shards) {
  const SoundFile file(path, shards);
  if (!file.knows_length()) file.refuse("a stream without a length", "a file that knows its own");
  const sf_count_t frames = file.info().frames;
  const double promised_s = file.seconds_of(file.promised_frames());
  if (promised_s - file.seconds_of(frames) > duration_tolerance_s(promised_s))
    refuse_cut(file, frames);
  return {
      .sample_rate = file.info().samplerate, .channels = file.info().channels, .frames = frames};
}

AudioInfo audio_info(const std::filesystem::path& path) {
  TarShards shards;
  return audio_info(path, shards);
}

void write_flac(const std::filesystem::path& path, std::span<const float> samples,
                int64_t sample_rate) {
  SF_INFO info = {};
  info.samplerate = static_cast<int>(sample_rate);
  info.channels = 1;
  info.format = SF_FORMAT_FLAC | SF_FORMAT_PCM_16;
  const std::unique_ptr<SNDFILE, decltype(&sf_close)> file(sf_open(path.c_str(), SFM_WRITE, &info),
                                                           &sf_close);
  const auto count = static_cast<sf_count_t>(samples.size());
  if (file != nullptr && sf_writef_float(file.get(), samples.data(), count) == count) return;
  throw DataError({.attempted = fmt::format("writing {}", path.string()),
                   .found = fmt::format("libsndfile says \"{}\"", sf_strerror(file.get())),
                   .expected = "a place with room that can be written to"});
}

}  // namespace sotto::data
