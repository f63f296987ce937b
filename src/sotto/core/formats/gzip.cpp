#include "sotto/core/formats/gzip.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <limits>
#include <string>
#include <system_error>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/units.h"

namespace sotto {

namespace {

namespace fs = std::filesystem;

constexpr size_t kPieceBytes = size_t{1} << 20;
// Weights shrink by a tenth; a network of zeros by a factor of 1000.
constexpr int64_t kMaxGrowth = 16;
constexpr int64_t kAlwaysAllowed = int64_t{64} << 20;
// Adds the check for a gzip header to the largest window.
constexpr int kGzipWindow = 15 + 16;

fs::path scratch_folder() {
  const char* folder = std::getenv("TMPDIR");
  if (folder != nullptr && *folder != '\0') return folder;
  // On a disk on most machines, where /tmp may be memory.
  return "/var/tmp";
}

// A file without a name.
class ScratchFile {
 public:
  explicit ScratchFile(const fs::path& archive) : archive_(archive), folder_(scratch_folder()) {
    std::string name = (folder_ / ".sotto-XXXXXX").string();
    descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
    if (descriptor_ < 0) refuse_write();
    ::unlink(name.c_str());
  }
  ~ScratchFile() { ::close(descriptor_); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) refuse_write();
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
  }

  int descriptor() const { return descriptor_; }

 private:
  [[noreturn]] void refuse_write() const {
    throw DataError(
        {.attempted = fmt::format("unpacking {} in {}", archive_.string(), folder_.string()),
         .found = std::generic_category().message(errno),
         .expected = "room for the unpacked archive",
         .hint = "Set TMPDIR to a folder on a larger disk, or unpack it yourself: "
                 "gunzip < FILE.nemo > UNPACKED.nemo"});
  }

  const fs::path& archive_;
  fs::path folder_;
  int descriptor_ = -1;
};

// The state of zlib while a file is read.
class Inflater {
 public:
  Inflater(std::span<const std::byte> packed, const fs::path& path) : packed_(packed), path_(path) {
    SOTTO_ASSERT(inflateInit2(&stream_, kGzipWindow) == Z_OK, "zlib cannot start");
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Fills `room` as far as the content reaches; returns the number of bytes, 0 at the end.
  size_t read(std::span<std::byte> room) {
    stream_.next_out = reinterpret_cast<Bytef*>(room.data());
    stream_.avail_out = static_cast<uInt>(room.size());
    while (stream_.avail_out > 0 && !has_ended_) step();
    return room.size() - stream_.avail_out;
  }

 private:
  void step() {
    if (stream_.avail_in == 0) {
      const std::span<const std::byte> next =
          packed_.first(std::min<size_t>(packed_.size(), std::numeric_limits<uInt>::max()));
      // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): zlib's pointer is not const
      stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(next.data()));
      stream_.avail_in = static_cast<uInt>(next.size());
      packed_ = packed_.subspan(next.size());
    }
    const int code = inflate(&stream_, Z_NO_FLUSH);
    if (code == Z_STREAM_END) return end_member();
    if (code == Z_BUF_ERROR || (code == Z_OK && is_exhausted() && stream_.avail_out > 0))
      refuse_file(path_, "the compressed archive is truncated", "a complete gzip file");
    if (code != Z_OK)
      refuse_file(path_,
                  fmt::format("the compressed archive is damaged: {}",
                              stream_.msg == nullptr ? "unknown data" : stream_.msg),
                  "a complete gzip file");
  }

  bool is_exhausted() const { return stream_.avail_in == 0 && packed_.empty(); }

  // Another member may follow; zeros after the last are padding.
  void end_member() {
    const bool is_last = is_exhausted() || (stream_.avail_in > 0 && *stream_.next_in == 0);
    has_ended_ = is_last;
    if (!is_last) inflateReset(&stream_);
  }

  z_stream stream_{};
  std::span<const std::byte> packed_;
  const fs::path& path_;
  bool has_ended_ = false;
};

}  // namespace

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

int64_t max_unpacked_bytes(int64_t packed_bytes) {
  return kAlwaysAllowed + kMaxGrowth * packed_bytes;
}

MappedFile unpack_gzip(std::span<const std::byte> packed, const fs::path& path, int64_t max_bytes) {
  ScratchFile scratch(path);
  Inflater inflater(packed, path);
  std::vector<std::byte> room(kPieceBytes);
  int64_t total = 0;
  while (const size_t count = inflater.read(room)) {
    total += static_cast<int64_t>(count);
    if (total > max_bytes)
      refuse_file(path,
                  fmt::format("{} of compressed data become more than {}",
                              format_bytes(std::ssize(packed)), format_bytes(max_bytes)),
                  "an archive of weights, which hardly shrink", /*hint=*/{});
    scratch.write(std::span(room).first(count));
  }
  return MappedFile::of_descriptor(scratch.descriptor(), path, "a gzip file");
}

}  // namespace sotto
