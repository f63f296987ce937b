#include "sotto/data/audio/sound_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <system_error>

#include "sotto/core/error.h"
#include "sotto/data/audio/audio.h"

namespace sotto::data {

namespace {

constexpr const char* kAudio = "audio in WAV, FLAC, OGG or MP3";

// Returns the bytes of a sample; 0 if frames are packed in blocks.
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

// Returns the number of frames claimed by a WAV file's header, which libsndfile reduces to the
// available ones.
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
  // Programs that write to a pipe cannot know the size and write the maximum of the field.
  constexpr unsigned kUnknown = 0x7FFF0000;
  if (chunk.datalen >= kUnknown) return info.frames;
  return std::max(info.frames, chunk.datalen / frame_bytes);
}

}  // namespace

// Callbacks with which libsndfile reads from an archive.
struct StreamCalls {
  using Stream = SoundFile::Stream;

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
      // Exceptions must not propagate through a C library: report the end of the file instead.
      return 0;
    }
  }

  static SF_VIRTUAL_IO all() {
    return {.get_filelen = length, .seek = seek, .read = read, .write = write, .tell = tell};
  }
};

SoundFile::Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

SoundFile::SoundFile(const std::filesystem::path& path, TarShards& shards) : path_(path) {
  // Checked first: the MP3 reader accepts some of these files and decodes noise.
  if (needs_ffmpeg(path_)) {
    refuse(fmt::format("{} files are for other programs to read", path_.extension().string()),
           kAudio, fmt::format("This makes one: {}", ffmpeg_line(path_)));
  }
  const std::optional<TarMember> member = tar_member(path_);
  if (member) stream_.part = shards.find(*member);
  if (member && stream_.part.size == 0) refuse("the file is empty", kAudio, {}, Fault::kEmpty);
  if (!member) descriptor_.emplace(open_descriptor());
  // While a file is opened libsndfile keeps the reason of a failure in a global variable. Files are
  // opened by many threads concurrently; if one fails it is opened again exclusively, to get the
  // reason.
  static std::shared_mutex opening;
  {
    const std::shared_lock together(opening);
    file_ = open_once();
  }
  if (file_ == nullptr) {
    const std::unique_lock alone(opening);
    file_ = open_once();
    if (file_ == nullptr) refuse_format(sf_strerror(nullptr));
  }
  if (info_.samplerate < kLowestSampleRate || info_.samplerate > kHighestSampleRate) {
    refuse(fmt::format("its header claims {} samples per second", info_.samplerate),
           fmt::format("from {} to {}", kLowestSampleRate, kHighestSampleRate),
           "The header is wrong; write the file again with the rate it was recorded at.");
  }
  promised_frames_ = frames_of_header(file_.get(), info_);
}

// libsndfile would report "System error" for everything that is refused here.
int SoundFile::open_descriptor() const {
  // O_NONBLOCK, because opening a pipe would block.
  const int descriptor = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) refuse(std::generic_category().message(errno), kAudio);
  struct stat status{};
  const bool is_known = fstat(descriptor, &status) == 0;
  const char* fault = nullptr;
  if (is_known && S_ISDIR(status.st_mode))
    fault = "it is a folder";
  else if (!is_known || !S_ISREG(status.st_mode))
    fault = "it is no regular file";
  else if (status.st_size == 0)
    fault = "the file is empty";
  if (fault == nullptr) return descriptor;
  ::close(descriptor);
  const bool is_empty = is_known && S_ISREG(status.st_mode);
  refuse(fault, kAudio, {}, is_empty ? Fault::kEmpty : Fault::kUnreadable);
}

SoundFile::Handle SoundFile::open_once() {
  info_ = {};
  if (!descriptor_) {
    stream_.at = 0;
    SF_VIRTUAL_IO calls = StreamCalls::all();
    return Handle(sf_open_virtual(&calls, SFM_READ, &info_, &stream_));
  }
  // libsndfile gets its own descriptor, which it closes; both share the file position.
  lseek(descriptor_->number(), 0, SEEK_SET);
  return Handle(sf_open_fd(dup(descriptor_->number()), SFM_READ, &info_, SF_TRUE));
}

std::span<const std::byte> SoundFile::bytes(std::unique_ptr<std::byte[]>& room) const {
  struct stat status{};
  if (descriptor_ && fstat(descriptor_->number(), &status) != 0) return {};
  const auto size = static_cast<size_t>(descriptor_ ? status.st_size : stream_.part.size);
  room = std::make_unique_for_overwrite<std::byte[]>(size);
  if (!descriptor_) {
    const int64_t got = stream_.part.read(0, {reinterpret_cast<char*>(room.get()), size});
    return {room.get(), got == stream_.part.size ? size : 0};
  }
  // Does not move the file position, which libsndfile uses.
  for (size_t at = 0; at < size;) {
    const ssize_t got =
        pread(descriptor_->number(), room.get() + at, size - at, static_cast<off_t>(at));
    if (got <= 0) return {};
    at += static_cast<size_t>(got);
  }
  return {room.get(), size};
}

void SoundFile::refuse(const std::string& found, const std::string& expected,
                       const std::string& hint, Fault fault) const {
  throw AudioError(fault, {.attempted = fmt::format("reading {}", path_.string()),
                           .found = found,
                           .expected = expected,
                           .hint = hint});
}

void SoundFile::refuse_format(const std::string& reason) const {
  const size_t end = reason.find_last_not_of(". \n");
  refuse(fmt::format("libsndfile says \"{}\"", reason.substr(0, end + 1)), kAudio);
}

}  // namespace sotto::data
