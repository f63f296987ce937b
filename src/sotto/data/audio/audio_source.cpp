#include "sotto/data/audio/audio_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "sotto/data/audio/audio.h"
#include "sotto/data/audio/audio_path.h"

namespace sotto::data {

AudioSource::Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

AudioSource::AudioSource(const std::filesystem::path& path, TarShards& shards, std::string expected)
    : path_(path), expected_(std::move(expected)) {
  // Checked first: the MP3 decoder accepts some of these files and decodes noise.
  if (needs_ffmpeg(path_)) {
    refuse(fmt::format("{} files are not supported", path_.extension().string()), expected_,
           fmt::format("Convert it: {}", ffmpeg_line(path_)));
  }
  const std::optional<TarMember> member = tar_member(path_);
  if (member) part_ = shards.find(*member);
  if (member && part_.size == 0) refuse("the file is empty", expected_, {}, Fault::kEmpty);
  if (!member) descriptor_.emplace(open_descriptor());
}

// Checks the file type here because decoders report it less clearly.
int AudioSource::open_descriptor() const {
  // Non-blocking, because opening a named pipe would wait for a writer.
  const int descriptor = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) refuse(std::generic_category().message(errno), expected_);
  struct stat status{};
  const bool is_known = fstat(descriptor, &status) == 0;
  const char* fault = nullptr;
  if (is_known && S_ISDIR(status.st_mode))
    fault = "it is a folder";
  else if (!is_known || !S_ISREG(status.st_mode))
    fault = "it is not a regular file";
  else if (status.st_size == 0)
    fault = "the file is empty";
  if (fault == nullptr) return descriptor;
  ::close(descriptor);
  const bool is_empty = is_known && S_ISREG(status.st_mode);
  refuse(fault, expected_, {}, is_empty ? Fault::kEmpty : Fault::kUnreadable);
}

std::optional<int> AudioSource::descriptor() const {
  if (!descriptor_) return std::nullopt;
  return descriptor_->number();
}

int64_t AudioSource::size() const {
  if (!descriptor_) return part_.size;
  struct stat status{};
  return fstat(descriptor_->number(), &status) == 0 ? int64_t{status.st_size} : 0;
}

int64_t AudioSource::read(int64_t at, std::span<char> to) const {
  if (!descriptor_) return part_.read(at, to);
  int64_t taken = 0;
  while (taken < std::ssize(to)) {
    const std::span<char> rest = to.subspan(static_cast<size_t>(taken));
    const ssize_t got = pread(descriptor_->number(), rest.data(), rest.size(), at + taken);
    if (got <= 0) break;
    taken += got;
  }
  return taken;
}

std::span<const std::byte> AudioSource::bytes(std::unique_ptr<std::byte[]>& room) const {
  const auto size = static_cast<size_t>(this->size());
  room = std::make_unique_for_overwrite<std::byte[]>(size);
  const int64_t got = read(0, {reinterpret_cast<char*>(room.get()), size});
  return {room.get(), static_cast<size_t>(got) == size ? size : 0};
}

void AudioSource::check_sample_rate(int64_t rate) const {
  if (rate >= kLowestSampleRate && rate <= kHighestSampleRate) return;
  refuse(fmt::format("its header claims {} samples per second", rate),
         fmt::format("from {} to {}", kLowestSampleRate, kHighestSampleRate),
         "The header is wrong; write the file again with the rate it was recorded at.");
}

void AudioSource::refuse(const std::string& found, const std::string& expected,
                         const std::string& hint, Fault fault) const {
  throw AudioError(fault, {.attempted = fmt::format("reading {}", path_.string()),
                           .found = found,
                           .expected = expected,
                           .hint = hint});
}

}  // namespace sotto::data
