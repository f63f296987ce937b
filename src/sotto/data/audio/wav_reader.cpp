// A WAV file is a RIFF header and chunks: an id of four letters, a size, and bytes padded to an
// even number. "fmt " describes the samples, "data" after it contains them.
#include "sotto/data/audio/wav_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <string_view>

namespace sotto::data {

namespace {

// Samples and numbers are read in the file's byte order.
static_assert(std::endian::native == std::endian::little);

constexpr int64_t kSampleBytes = 2;
constexpr int64_t kChunkHead = 8;

template <class Number>
Number number_at(const char* bytes) {
  Number number;
  std::memcpy(&number, bytes, sizeof(number));
  return number;
}

// --- the fmt chunk

constexpr int64_t kFormatBytes = 16;
constexpr int64_t kExtensibleBytes = 40;

struct WavFormat {
  uint16_t tag = 0;
  int64_t channels = 0;
  int64_t sample_rate = 0;
  int64_t frame_bytes = 0;
  int64_t bits = 0;

  static constexpr uint16_t kPcm = 1, kFloat = 3, kALaw = 6, kMuLaw = 7, kExtensible = 0xFFFE;
};

// The tag of an extensible format is the start of a GUID, which ends in these bytes.
constexpr std::string_view kGuidEnd("\x00\x00\x00\x00\x10\x00\x80\x00\x00\xAA\x00\x38\x9B\x71", 14);

// Returns std::nullopt if the chunk is too short.
std::optional<WavFormat> read_format(std::span<const char> chunk) {
  if (std::ssize(chunk) < kFormatBytes) return std::nullopt;
  WavFormat format{.tag = number_at<uint16_t>(chunk.data()),
                   .channels = number_at<uint16_t>(chunk.data() + 2),
                   .sample_rate = number_at<uint32_t>(chunk.data() + 4),
                   .frame_bytes = number_at<uint16_t>(chunk.data() + 12),
                   .bits = number_at<uint16_t>(chunk.data() + 14)};
  if (format.tag != WavFormat::kExtensible) return format;
  if (std::ssize(chunk) < kExtensibleBytes) return std::nullopt;
  if (std::string_view(chunk.data() + 26, kGuidEnd.size()) == kGuidEnd)
    format.tag = number_at<uint16_t>(chunk.data() + 24);
  return format;
}

std::string name_of_kind(const WavFormat& format) {
  switch (format.tag) {
    case WavFormat::kPcm: return fmt::format("{}-bit PCM", format.bits);
    case WavFormat::kFloat: return fmt::format("{}-bit floating point", format.bits);
    case WavFormat::kALaw: return "A-law";
    case WavFormat::kMuLaw: return "mu-law";
    default: return fmt::format("format 0x{:04x}", format.tag);
  }
}

std::optional<WavFault> fault_of(const WavFormat& format) {
  constexpr int64_t kMostChannels = 1'024;  // the limit of libsndfile
  if (format.tag != WavFormat::kPcm || format.bits != 8 * kSampleBytes)
    return WavFault{.found = "WAV of " + name_of_kind(format), .is_other_kind = true};
  if (format.channels < 1 || format.channels > kMostChannels)
    return WavFault{.found = fmt::format("its header claims {} channels", format.channels)};
  if (format.frame_bytes != kSampleBytes * format.channels) {
    return WavFault{.found = fmt::format("its header claims {} bytes per frame of {} channels",
                                         format.frame_bytes, format.channels)};
  }
  return std::nullopt;
}

// --- the data chunk

// `data_bytes` is the size in the chunk's header, `present` the number of bytes that follow it.
WavHeader header_of(const WavFormat& format, int64_t data_at, int64_t data_bytes, int64_t present) {
  // Programs that write to a pipe do not know the size and store the largest value of the field.
  constexpr int64_t kUnknown = 0x7FFF0000;
  const int64_t frames = std::min(data_bytes, present) / format.frame_bytes;
  const int64_t promised = data_bytes >= kUnknown ? frames : data_bytes / format.frame_bytes;
  return {
      .info = {.sample_rate = format.sample_rate, .channels = format.channels, .frames = frames},
      .promised_frames = std::max(frames, promised),
      .data_at = data_at};
}

}  // namespace

std::variant<WavHeader, WavFault> read_wav_header(const ReadBytes& read, int64_t size) {
  // Files have a few chunks before the samples; a broken file may have millions.
  constexpr int kMostChunks = 10'000;
  constexpr int64_t kRiffHead = 12;
  std::array<char, kExtensibleBytes> bytes = {};
  const auto letters = [&](size_t at) { return std::string_view(bytes.data() + at, 4); };
  if (read(0, std::span(bytes).first(kRiffHead)) < kRiffHead || letters(0) != "RIFF" ||
      letters(8) != "WAVE")
    return WavFault{.found = "no WAV header"};
  // Like libsndfile: a writer that did not close its file leaves these two sizes.
  const bool may_be_open = number_at<uint32_t>(bytes.data() + 4) == 8 && size > 44;
  std::optional<WavFormat> format;
  int64_t at = kRiffHead;
  for (int chunk = 0; chunk < kMostChunks; ++chunk) {
    if (read(at, std::span(bytes).first(kChunkHead)) < kChunkHead)
      return WavFault{.found = "a WAV header without samples after it"};
    const int64_t chunk_bytes = number_at<uint32_t>(bytes.data() + 4);
    at += kChunkHead;
    if (letters(0) == "data") {
      if (!format) return WavFault{.found = "samples before their format"};
      const int64_t present = std::max<int64_t>(size - at, 0);
      const bool is_open = may_be_open && chunk_bytes == 0;
      return header_of(*format, at, is_open ? present : chunk_bytes, present);
    }
    if (letters(0) == "fmt ") {
      const auto asked = static_cast<size_t>(std::min(chunk_bytes, kExtensibleBytes));
      const int64_t got = read(at, std::span(bytes).first(asked));
      format = read_format(std::span(bytes).first(static_cast<size_t>(got)));
      if (!format) return WavFault{.found = "a truncated WAV header"};
      if (const std::optional<WavFault> fault = fault_of(*format)) return *fault;
    }
    at += chunk_bytes + chunk_bytes % 2;
  }
  return WavFault{.found = fmt::format("{} chunks before any samples", kMostChunks)};
}

std::vector<float> read_wav_samples(const ReadBytes& read, const WavHeader& header, int64_t first,
                                    int64_t most) {
  constexpr int64_t kNumbersAtOnce = 32'768;
  constexpr float kScale = 1.0f / 32'768.0f;
  const int64_t channels = header.info.channels;
  const int64_t wanted = std::max<int64_t>(std::min(most, header.info.frames - first), 0);
  std::vector<int16_t> block(
      static_cast<size_t>(std::max(kNumbersAtOnce / channels, int64_t{1}) * channels));
  std::vector<float> samples(static_cast<size_t>(wanted));
  int64_t done = 0;
  while (done < wanted) {
    const int64_t asked = std::min(wanted - done, std::ssize(block) / channels);
    const int64_t frame_bytes = kSampleBytes * channels;
    const std::span<char> into(reinterpret_cast<char*>(block.data()),
                               static_cast<size_t>(asked * frame_bytes));
    const int64_t got = read(header.data_at + (first + done) * frame_bytes, into) / frame_bytes;
    const int16_t* frame = block.data();
    for (int64_t i = 0; i < got; ++i, frame += channels) {
      float sum = 0.0f;
      for (int64_t c = 0; c < channels; ++c) sum += kScale * static_cast<float>(frame[c]);
      samples[static_cast<size_t>(done + i)] = sum / static_cast<float>(channels);
    }
    done += got;
    if (got < asked) break;
  }
  samples.resize(static_cast<size_t>(done));
  return samples;
}

}  // namespace sotto::data
