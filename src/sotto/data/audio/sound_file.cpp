#include "sotto/data/audio/sound_file.h"

#include <fmt/format.h>
#include <sndfile.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <shared_mutex>

#include "sotto/core/error.h"

namespace sotto::data {

namespace {

constexpr const char* kAudio = "audio in WAV, FLAC, OGG or MP3";

// Frames decoded at a time; the length in a header is not trusted for an allocation.
constexpr sf_count_t kFramesAtOnce = 16'384;
constexpr sf_count_t kMaxReservedFrames = 4'000'000;

// Returns the bytes per sample; 0 if frames are compressed in blocks.
sf_count_t sample_bytes(int format) {
  switch (format & SF_FORMAT_SUBMASK) {
    case SF_FORMAT_PCM_S8:
    case SF_FORMAT_PCM_U8:
    case SF_FORMAT_ULAW:
    case SF_FORMAT_ALAW: return 1;
    case SF_FORMAT_PCM_16: return 2;
    case SF_FORMAT_PCM_24: return 3;
    case SF_FORMAT_PCM_32:
    case SF_FORMAT_FLOAT: return 4;
    case SF_FORMAT_DOUBLE: return 8;
    default: return 0;
  }
}

// Returns the number of frames in a WAV file's header; libsndfile reports only those in the file.
sf_count_t frames_of_header(SNDFILE* file, const SF_INFO& info) {
  const int container = info.format & SF_FORMAT_TYPEMASK;
  const sf_count_t frame_bytes = sample_bytes(info.format) * info.channels;
  if ((container != SF_FORMAT_WAV && container != SF_FORMAT_WAVEX) || frame_bytes == 0)
    return info.frames;
  SF_CHUNK_INFO chunk = {};
  std::memcpy(chunk.id, "data", 4);
  chunk.id_size = 4;
  SF_CHUNK_ITERATOR* at = sf_get_chunk_iterator(file, &chunk);
  if (at == nullptr || sf_get_chunk_size(at, &chunk) != SF_ERR_NO_ERROR) return info.frames;
  // Programs that write to a pipe do not know the size and store the largest value of the field.
  constexpr unsigned kUnknown = 0x7FFF0000;
  if (chunk.datalen >= kUnknown) return info.frames;
  return std::max(info.frames, chunk.datalen / frame_bytes);
}

}  // namespace

struct SoundFile::Reader {
  // A file in an archive, the position in it, and the callbacks for libsndfile.
  struct Stream {
    FilePart part;
    sf_count_t at = 0;

    static sf_count_t length(void* stream) { return static_cast<Stream*>(stream)->part.size; }
    static sf_count_t tell(void* stream) { return static_cast<Stream*>(stream)->at; }
    static sf_count_t write(const void*, sf_count_t, void*) { return 0; }

    static sf_count_t seek(sf_count_t offset, int whence, void* user) {
      auto* stream = static_cast<Stream*>(user);
      if (whence == SEEK_CUR) offset += stream->at;
      if (whence == SEEK_END) offset += stream->part.size;
      if (offset < 0) return -1;
      stream->at = offset;
      return offset;
    }

    static sf_count_t read(void* into, sf_count_t count, void* user) {
      auto* stream = static_cast<Stream*>(user);
      const auto most = static_cast<size_t>(std::max<sf_count_t>(count, 0));
      try {
        const sf_count_t taken = stream->part.read(stream->at, {static_cast<char*>(into), most});
        stream->at += taken;
        return taken;
      } catch (const DataError&) {
        // An exception must not pass through a C library: report the end of the file.
        return 0;
      }
    }

    static SF_VIRTUAL_IO calls() {
      return {.get_filelen = length, .seek = seek, .read = read, .write = write, .tell = tell};
    }
  };
  struct Close {
    void operator()(SNDFILE* file) const { sf_close(file); }
  };

  Stream stream;
  SF_INFO info = {};
  std::unique_ptr<SNDFILE, Close> file;

  void open(const AudioSource& source) {
    info = {};
    if (!source.descriptor()) {
      stream = {.part = source.part()};
      SF_VIRTUAL_IO calls = Stream::calls();
      file.reset(sf_open_virtual(&calls, SFM_READ, &info, &stream));
      return;
    }
    // libsndfile closes the duplicate; both descriptors share the file position.
    lseek(*source.descriptor(), 0, SEEK_SET);
    file.reset(sf_open_fd(dup(*source.descriptor()), SFM_READ, &info, SF_TRUE));
  }
};

SoundFile::SoundFile(const std::filesystem::path& path, TarShards& shards)
    : source_(path, shards, kAudio), reader_(std::make_unique<Reader>()) {
  // libsndfile stores the reason for a failed open in a global variable. Many threads open files at
  // once; if one fails, the file is opened again under an exclusive lock to get the reason.
  static std::shared_mutex opening;
  {
    const std::shared_lock together(opening);
    reader_->open(source_);
  }
  if (reader_->file == nullptr) {
    const std::unique_lock alone(opening);
    reader_->open(source_);
    if (reader_->file == nullptr) {
      const std::string reason = sf_strerror(nullptr);
      const size_t end = reason.find_last_not_of(". \n");
      refuse(fmt::format("libsndfile says \"{}\"", reason.substr(0, end + 1)), kAudio);
    }
  }
  const SF_INFO& info = reader_->info;
  source_.check_sample_rate(info.samplerate);
  static_assert(kUnknownFrames == SF_COUNT_MAX);
  info_ = {.sample_rate = info.samplerate, .channels = info.channels, .frames = info.frames};
  promised_frames_ = frames_of_header(reader_->file.get(), info);
  is_flac_ = (info.format & SF_FORMAT_TYPEMASK) == SF_FORMAT_FLAC;
}

SoundFile::~SoundFile() = default;

bool SoundFile::seek(int64_t frame) {
  return sf_seek(reader_->file.get(), frame, SEEK_SET) == frame;
}

std::vector<float> SoundFile::read(int64_t most) {
  const auto channels = static_cast<size_t>(info_.channels);
  std::vector<float> block(channels == 1 ? 0 : static_cast<size_t>(kFramesAtOnce) * channels);
  std::vector<float> samples;
  samples.reserve(static_cast<size_t>(std::min({most, info_.frames, kMaxReservedFrames})));
  while (std::ssize(samples) < most) {
    const size_t first = samples.size();
    const sf_count_t asked = std::min(kFramesAtOnce, most - std::ssize(samples));
    samples.resize(first + static_cast<size_t>(asked));
    float* into = channels == 1 ? samples.data() + first : block.data();
    const sf_count_t got =
        std::max<sf_count_t>(sf_readf_float(reader_->file.get(), into, asked), 0);
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
                   .expected = "a writable path with free space"});
}

}  // namespace sotto::data
