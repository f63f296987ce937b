#include "sotto/data/audio.h"

#include <sndfile.h>
#include <soxr.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <memory>
#include <mutex>
#include <system_error>

#include "sotto/core/error.h"

namespace sotto::data {

namespace {

// Frames decoded at a time: what a header says of the length is not trusted with an allocation.
constexpr sf_count_t kFramesAtOnce = 16'384;

// Throws what is wrong with a file.
class Complainer {
 public:
  explicit Complainer(const std::filesystem::path& path) : path_(path) {}

  [[noreturn]] void refuse(const std::string& found, const std::string& expected,
                           const std::string& hint = {}) const {
    throw DataError({.attempted = fmt::format("reading {}", path_.string()),
                     .found = found,
                     .expected = expected,
                     .hint = hint});
  }

 private:
  const std::filesystem::path& path_;
};

struct CloseFile {
  void operator()(SNDFILE* file) const { sf_close(file); }
};
using SoundFile = std::unique_ptr<SNDFILE, CloseFile>;

constexpr const char* kAudio = "audio in WAV, FLAC, OGG or MP3";

// libsndfile would say "System error" of all of these.
void check_readable(const std::filesystem::path& path, const Complainer& complainer) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) complainer.refuse("it is a folder", kAudio);
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) complainer.refuse(std::generic_category().message(errno), kAudio);
  if (file.peek() == std::ifstream::traits_type::eof())
    complainer.refuse("the file is empty", kAudio);
}

SoundFile open_file(const std::filesystem::path& path, SF_INFO& info,
                    const Complainer& complainer) {
  check_readable(path, complainer);
  // While a file is opened libsndfile keeps the reason of a failure in a global variable, and
  // readies its MP3 decoder at the first one.
  static std::mutex opening;
  const std::lock_guard lock(opening);
  SoundFile file(sf_open(path.c_str(), SFM_READ, &info));
  if (file != nullptr) return file;
  std::string reason = sf_strerror(nullptr);
  if (reason.ends_with('.')) reason.pop_back();
  complainer.refuse(fmt::format("libsndfile says \"{}\"", reason), kAudio);
}

// Whether the header's number of frames means anything; a stream may not know its length.
bool knows_length(const SF_INFO& info) {
  return info.frames >= 0 && info.frames < SF_COUNT_MAX;
}

double seconds_of(sf_count_t frames, const SF_INFO& info) {
  return static_cast<double>(frames) / info.samplerate;
}

[[noreturn]] void refuse_length(double found_s, const AudioSegment& segment,
                                const Complainer& complainer) {
  complainer.refuse(fmt::format("{:.3f} s of audio", found_s),
                    fmt::format("{} s as in the manifest, to {:.3f} s", segment.duration_s,
                                duration_tolerance_s(segment.duration_s)),
                    "The manifest's duration is wrong, or the file is not the one it was made "
                    "for.");
}

// Where the segment's first frame is, after moving the file there.
sf_count_t seek_to_segment(SNDFILE* file, const SF_INFO& info, const AudioSegment& segment,
                           const Complainer& complainer) {
  const double wanted = std::round(segment.offset_s.value_or(0.0) * info.samplerate);
  if (wanted == 0.0) return 0;
  if (knows_length(info) && wanted >= static_cast<double>(info.frames)) {
    complainer.refuse(fmt::format("it ends at {:.3f} s", seconds_of(info.frames, info)),
                      fmt::format("a segment from {} s on", *segment.offset_s),
                      "The manifest's offset is in seconds.");
  }
  const auto first = static_cast<sf_count_t>(wanted);
  if (sf_seek(file, first, SEEK_SET) != first)
    complainer.refuse(fmt::format("it cannot be entered at {} s", *segment.offset_s),
                      "a file that can be read from any place");
  return first;
}

// The next frames, channels averaged, until `most` are there or the file ends.
std::vector<float> decode(SNDFILE* file, const SF_INFO& info, sf_count_t most) {
  const auto channels = static_cast<size_t>(info.channels);
  std::vector<float> block(static_cast<size_t>(kFramesAtOnce) * channels);
  std::vector<float> samples;
  while (static_cast<sf_count_t>(samples.size()) < most) {
    const sf_count_t asked =
        std::min(kFramesAtOnce, most - static_cast<sf_count_t>(samples.size()));
    const sf_count_t got = sf_readf_float(file, block.data(), asked);
    for (size_t frame = 0; frame < static_cast<size_t>(std::max<sf_count_t>(got, 0)); ++frame) {
      float sum = 0.0f;
      for (size_t c = 0; c < channels; ++c) sum += block[frame * channels + c];
      samples.push_back(sum / static_cast<float>(channels));
    }
    if (got < asked) break;
  }
  return samples;
}

void check_finite(const std::vector<float>& samples, const Complainer& complainer) {
  const auto bad = std::ranges::find_if_not(samples, [](float x) { return std::isfinite(x); });
  if (bad == samples.end()) return;
  complainer.refuse(fmt::format("sample {} is {}", bad - samples.begin(), *bad), "finite samples");
}

std::vector<float> resampled(std::vector<float> samples, int from, int64_t to) {
  if (from == to || samples.empty()) return samples;
  const double ratio = static_cast<double>(to) / from;
  // soxr rounds the length up or down by itself; one more never hurts.
  std::vector<float> result(static_cast<size_t>(static_cast<double>(samples.size()) * ratio) + 2);
  const soxr_io_spec_t types = soxr_io_spec(SOXR_FLOAT32_I, SOXR_FLOAT32_I);
  const soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
  const soxr_runtime_spec_t one_thread = soxr_runtime_spec(1);  // the loader has threads enough
  size_t taken = 0;
  size_t made = 0;
  const soxr_error_t error =
      soxr_oneshot(from, static_cast<double>(to), 1, samples.data(), samples.size(), &taken,
                   result.data(), result.size(), &made, &types, &quality, &one_thread);
  SOTTO_ASSERT(error == nullptr, "soxr from {} to {} Hz: {}", from, to, error);
  result.resize(made);
  return result;
}

// Frames to ask for: one more than a whole file may have shows that it is longer.
sf_count_t frames_to_ask(const AudioSegment& segment, const SF_INFO& info) {
  constexpr double kMost = 1e15;  // a manifest may say anything
  if (segment.duration_s == 0.0) return static_cast<sf_count_t>(kMost);
  const bool is_whole = !segment.offset_s.has_value();
  const double slack_s = is_whole ? duration_tolerance_s(segment.duration_s) : 0.0;
  const double frames = std::round((segment.duration_s + slack_s) * info.samplerate);
  return static_cast<sf_count_t>(std::min(frames, kMost)) + (is_whole ? 1 : 0);
}

// Frames that were asked for and those that came.
struct Decoded {
  sf_count_t first, asked, got;
};

// What came against what the file's header and the manifest say.
void check_length(const Decoded& decoded, const AudioSegment& segment, const SF_INFO& info,
                  const Complainer& complainer) {
  const sf_count_t end = decoded.first + decoded.got;
  if (knows_length(info) && end < std::min(decoded.first + decoded.asked, info.frames)) {
    complainer.refuse(fmt::format("{:.3f} s could be decoded", seconds_of(end, info)),
                      fmt::format("{:.3f} s as its header says", seconds_of(info.frames, info)),
                      "The file is cut short or broken.");
  }
  if (decoded.got == 0) complainer.refuse("no samples", "audio");
  if (segment.duration_s == 0.0) return;
  const double found_s = seconds_of(decoded.got, info);
  const double tolerance_s = duration_tolerance_s(segment.duration_s);
  if (found_s < segment.duration_s - tolerance_s || found_s > segment.duration_s + tolerance_s)
    refuse_length(found_s, segment, complainer);
}

}  // namespace

std::vector<float> read_audio(const AudioSegment& segment, int64_t sample_rate) {
  const Complainer complainer(segment.path);
  SF_INFO info = {};
  const SoundFile file = open_file(segment.path, info, complainer);
  // Known before hours are decoded in vain.
  const double longest_s = segment.duration_s + duration_tolerance_s(segment.duration_s);
  if (!segment.offset_s && segment.duration_s > 0.0 && knows_length(info) &&
      seconds_of(info.frames, info) > longest_s)
    refuse_length(seconds_of(info.frames, info), segment, complainer);
  Decoded decoded{.first = seek_to_segment(file.get(), info, segment, complainer),
                  .asked = frames_to_ask(segment, info),
                  .got = 0};
  std::vector<float> samples = decode(file.get(), info, decoded.asked);
  decoded.got = static_cast<sf_count_t>(samples.size());
  check_length(decoded, segment, info, complainer);
  check_finite(samples, complainer);
  return resampled(std::move(samples), info.samplerate, sample_rate);
}

void write_flac(const std::filesystem::path& path, std::span<const float> samples,
                int64_t sample_rate) {
  SF_INFO info = {};
  info.samplerate = static_cast<int>(sample_rate);
  info.channels = 1;
  info.format = SF_FORMAT_FLAC | SF_FORMAT_PCM_16;
  const SoundFile file(sf_open(path.c_str(), SFM_WRITE, &info));
  const auto count = static_cast<sf_count_t>(samples.size());
  if (file != nullptr && sf_writef_float(file.get(), samples.data(), count) == count) return;
  throw DataError({.attempted = fmt::format("writing {}", path.string()),
                   .found = fmt::format("libsndfile says \"{}\"", sf_strerror(file.get())),
                   .expected = "a place with room that can be written to"});
}

}  // namespace sotto::data
