// For builds without libsndfile: reads 16-bit WAV and FLAC with our own readers. Other formats
// throw ConfigError, which data.broken does not skip: the build is incomplete, not the file.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "sotto/core/error.h"
#include "sotto/data/audio/flac_decoder.h"
#include "sotto/data/audio/sound_file.h"
#include "sotto/data/audio/wav_reader.h"

namespace sotto::data {

namespace {

constexpr const char* kPlainAudio = "16-bit WAV or FLAC, which this build reads";
constexpr const char* kInstall =
    "Install libsndfile1-dev and libsoxr-dev and build again for other formats and sample rates.";

[[noreturn]] void refuse_kind(const AudioSource& source, const std::string& found) {
  throw ConfigError({.attempted = fmt::format("reading {}", source.path().string()),
                     .found = found,
                     .expected = kPlainAudio,
                     .hint = kInstall});
}

struct AudioKind {
  std::string_view beginning;
  const char* name;
};

// Formats that libsndfile can read.
constexpr std::array<AudioKind, 11> kOtherKinds = {{{"OggS", "an OGG file"},
                                                    {"ID3", "an MP3 file"},
                                                    {"\xFF\xFB", "an MP3 file"},
                                                    {"\xFF\xF3", "an MP3 file"},
                                                    {"RIFX", "a big-endian WAV file"},
                                                    {"RF64", "an RF64 file"},
                                                    {"riff", "a W64 file"},
                                                    {"FORM", "an AIFF file"},
                                                    {".snd", "an AU file"},
                                                    {"caff", "a CAF file"},
                                                    {"NIST", "a NIST SPHERE file"}}};

ReadBytes reader_of(const AudioSource& source) {
  return [&source](int64_t at, std::span<char> to) { return source.read(at, to); };
}

WavHeader open_wav(const AudioSource& source) {
  auto header = read_wav_header(reader_of(source), source.size());
  if (auto* found = std::get_if<WavHeader>(&header)) return *found;
  const auto& fault = std::get<WavFault>(header);
  if (fault.is_other_kind) refuse_kind(source, fault.found);
  source.refuse(fault.found, kPlainAudio);
}

FlacInfo open_flac(const AudioSource& source) {
  std::array<char, kFlacInfoBytes> bytes = {};
  source.read(0, bytes);
  const std::optional<FlacInfo> info = read_flac_info(std::as_bytes(std::span(bytes)));
  if (!info) source.refuse("a truncated or broken FLAC header", kPlainAudio);
  if (info->samples == 0) refuse_kind(source, "FLAC without a length in its header");
  if (!info->is_usual()) refuse_kind(source, fmt::format("FLAC of {} bits", info->bits));
  return *info;
}

}  // namespace

struct SoundFile::Reader {
  // std::nullopt: the file is FLAC.
  std::optional<WavHeader> wav;
  int64_t position = 0;
};

SoundFile::SoundFile(const std::filesystem::path& path, TarShards& shards)
    : source_(path, shards, kPlainAudio), reader_(std::make_unique<Reader>()) {
  std::array<char, 4> bytes = {};
  const int64_t size = source_.read(0, bytes);
  const std::string_view beginning(bytes.data(), static_cast<size_t>(size));
  if (beginning == "RIFF") {
    reader_->wav = open_wav(source_);
    info_ = reader_->wav->info;
    promised_frames_ = reader_->wav->promised_frames;
  } else if (beginning == "fLaC") {
    const FlacInfo info = open_flac(source_);
    info_ = {.sample_rate = info.sample_rate, .channels = info.channels, .frames = info.samples};
    promised_frames_ = info.samples;
    is_flac_ = true;
  } else {
    for (const AudioKind& kind : kOtherKinds) {
      if (beginning.starts_with(kind.beginning)) refuse_kind(source_, kind.name);
    }
    refuse("neither WAV nor FLAC", kPlainAudio, kInstall);
  }
  source_.check_sample_rate(info_.sample_rate);
}

SoundFile::~SoundFile() = default;

bool SoundFile::seek(int64_t frame) {
  reader_->position = frame;
  return true;
}

std::vector<float> SoundFile::read(int64_t most) {
  const int64_t first = reader_->position;
  std::optional<std::vector<float>> samples;
  if (reader_->wav) {
    samples = read_wav_samples(reader_of(source_), *reader_->wav, first, most);
  } else {
    std::unique_ptr<std::byte[]> room;
    samples = decode_flac_part(bytes(room), first, most);
  }
  if (!samples) {
    refuse(fmt::format("it could not be decoded up to {:.3f} s", seconds_of(first)),
           fmt::format("{:.3f} s as its header says", seconds_of(promised_frames_)),
           "The file is truncated or broken.");
  }
  reader_->position += std::ssize(*samples);
  return std::move(*samples);
}

void write_flac(const std::filesystem::path& path, std::span<const float> /*samples*/,
                int64_t /*sample_rate*/) {
  throw ConfigError({.attempted = fmt::format("writing {}", path.string()),
                     .found = "this build cannot write audio",
                     .expected = "a build with libsndfile and soxr",
                     .hint = "Install libsndfile1-dev and libsoxr-dev and build again."});
}

}  // namespace sotto::data
