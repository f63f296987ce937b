// FLAC by our decoder: the same samples as libsndfile's to the bit, or none.
#include "sotto/data/audio/flac_decoder.h"

#include <gtest/gtest.h>
#include <sndfile.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/rng.h"
#include "sotto/data/audio/audio.h"
#include "sotto/data/audio/flac_bits.h"
#include "support/flac_bytes.h"
#include "support/mutator.h"
#include "support/temp_folder.h"

namespace sotto::data {
namespace {

using test::Mutator;
using test::TempFolder;

constexpr int64_t kEverything = int64_t{1} << 40;

struct Form {
  int channels = 1;
  int format = SF_FORMAT_PCM_16;
  double level = 5.0 / 8.0;  // of compression, 0 to 1
};

// What makes encoders choose each of their ways.
enum class Signal { kSpeechLike, kSilence, kNoise, kCoarse, kSquare };
constexpr Signal kSignals[] = {Signal::kSpeechLike, Signal::kSilence, Signal::kNoise,
                               Signal::kCoarse, Signal::kSquare};

// Channels that resemble each other, frame after frame.
std::vector<float> make_signal(Signal kind, int64_t frames, int channels) {
  std::vector<float> noise(static_cast<size_t>(frames * channels));
  RandomStream({.seed = 3}, {}).fill_normal(noise, 0);
  std::vector<float> samples;
  float low = 0.0f;
  for (int64_t i = 0; i < frames; ++i) {
    low += 0.2f * (noise[static_cast<size_t>(i)] - low);
    for (int c = 0; c < channels; ++c) {
      const float own = noise[samples.size()];
      const float apart = 0.3f * low + 0.001f * own * static_cast<float>(c);
      float x = 0.0f;
      if (kind == Signal::kSpeechLike) x = apart;
      if (kind == Signal::kNoise) x = own;
      if (kind == Signal::kCoarse) x = std::round(apart * 32.0f) / 32.0f;
      if (kind == Signal::kSquare) x = i / 50 % 2 == 0 ? 1.0f : -1.0f;
      samples.push_back(std::clamp(x, -1.0f, 0.999f));
    }
  }
  return samples;
}

std::string write_flac_bytes(const TempFolder& folder, const std::vector<float>& samples,
                             const Form& form) {
  const auto path = folder.path() / "a.flac";
  std::filesystem::remove(path);
  SF_INFO info = {};
  info.channels = form.channels;
  info.samplerate = 16'000;
  info.format = SF_FORMAT_FLAC | form.format;
  SNDFILE* file = sf_open(path.c_str(), SFM_WRITE, &info);
  EXPECT_NE(file, nullptr);
  double level = form.level;
  sf_command(file, SFC_SET_COMPRESSION_LEVEL, &level, sizeof(level));
  sf_writef_float(file, samples.data(), std::ssize(samples) / form.channels);
  sf_close(file);
  return test::content_of(path);
}

std::vector<float> by_libsndfile(const std::filesystem::path& path) {
  SF_INFO info = {};
  SNDFILE* file = sf_open(path.c_str(), SFM_READ, &info);
  std::vector<float> frames(static_cast<size_t>(info.frames * info.channels));
  sf_readf_float(file, frames.data(), info.frames);
  sf_close(file);
  if (info.channels == 1) return frames;
  std::vector<float> samples;
  for (size_t i = 0; i < frames.size(); i += static_cast<size_t>(info.channels)) {
    float sum = 0.0f;
    for (size_t c = 0; c < static_cast<size_t>(info.channels); ++c) sum += frames[i + c];
    samples.push_back(sum / static_cast<float>(info.channels));
  }
  return samples;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(DecodeFlac, MatchesLibsndfile) {
  const TempFolder folder;
  for (const Signal signal : kSignals) {
    for (const int format : {SF_FORMAT_PCM_S8, SF_FORMAT_PCM_16, SF_FORMAT_PCM_24}) {
      for (const int channels : {1, 2, 3}) {
        for (const int level : {0, 3, 5, 8}) {
          const Form form{.channels = channels, .format = format, .level = level / 8.0};
          const std::string bytes =
              write_flac_bytes(folder, make_signal(signal, 9'001, channels), form);
          const auto ours = decode_flac(bytes_of(bytes), kEverything);
          ASSERT_TRUE(ours.has_value()) << channels << " channels, level " << level;
          ASSERT_EQ(*ours, by_libsndfile(folder.path() / "a.flac"))
              << "signal " << static_cast<int>(signal) << ", format " << format << ", " << channels
              << " channels, level " << level;
        }
      }
    }
  }
}

TEST(DecodeFlac, DecodesAnyLength) {
  const TempFolder folder;
  for (const int64_t frames : {1, 2, 15, 16, 17, 31, 4'095, 4'096, 4'097, 20'000}) {
    const std::string bytes =
        write_flac_bytes(folder, make_signal(Signal::kSpeechLike, frames, 1), {});
    const auto all = decode_flac(bytes_of(bytes), kEverything);
    ASSERT_TRUE(all.has_value()) << frames;
    EXPECT_EQ(*all, by_libsndfile(folder.path() / "a.flac")) << frames;
    // The first so many.
    for (const int64_t most : {frames / 2, frames - 1, frames}) {
      const auto some = decode_flac(bytes_of(bytes), most);
      ASSERT_TRUE(some.has_value());
      EXPECT_EQ(*some, std::vector(all->begin(), all->begin() + most));
    }
  }
}

TEST(DecodeFlac, DecodesAnyPart) {
  const TempFolder folder;
  const std::string bytes =
      write_flac_bytes(folder, make_signal(Signal::kSpeechLike, 20'000, 2), {.channels = 2});
  const auto all = decode_flac(bytes_of(bytes), kEverything);
  ASSERT_TRUE(all.has_value());
  for (const int64_t first : {0, 1, 4'095, 4'096, 4'097, 10'000, 19'999, 20'000}) {
    for (const int64_t most : {int64_t{0}, int64_t{1}, int64_t{5'000}, kEverything}) {
      const auto part = decode_flac_part(bytes_of(bytes), first, most);
      ASSERT_TRUE(part.has_value());
      const int64_t end = std::min(first + most, int64_t{20'000});
      EXPECT_EQ(*part, std::vector(all->begin() + first, all->begin() + end)) << first;
    }
  }
  EXPECT_FALSE(decode_flac_part(bytes_of(bytes), 20'001, 1).has_value());
  // Up to the fault; and nothing of what lies behind it.
  std::string broken = bytes;
  broken[bytes.size() - 100] = static_cast<char>(~broken[bytes.size() - 100]);
  const auto rest = decode_flac_part(bytes_of(broken), 10'000, kEverything);
  ASSERT_TRUE(rest.has_value());
  ASSERT_TRUE(!rest->empty() && rest->size() < 10'000) << rest->size();
  EXPECT_EQ(*rest, std::vector(all->begin() + 10'000, all->begin() + 10'000 + std::ssize(*rest)));
  EXPECT_FALSE(decode_flac_part(bytes_of(broken), 19'999, 1).has_value());
}

TEST(DecodeFlac, ReadsTheHeader) {
  const TempFolder folder;
  const std::string bytes = write_flac_bytes(folder, make_signal(Signal::kNoise, 500, 2),
                                             {.channels = 2, .format = SF_FORMAT_PCM_24});
  const auto info = read_flac_info(bytes_of(bytes).first(kFlacInfoBytes));
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->sample_rate, 16'000);
  EXPECT_EQ(info->channels, 2);
  EXPECT_EQ(info->bits, 24);
  EXPECT_EQ(info->samples, 500);
  EXPECT_FALSE(read_flac_info(bytes_of(bytes).first(kFlacInfoBytes - 1)).has_value());
  for (const size_t index : {0, 4, 7}) {
    std::string broken = bytes;
    broken[index] = static_cast<char>(broken[index] ^ 1);
    EXPECT_FALSE(read_flac_info(bytes_of(broken)).has_value()) << index;
  }
}

// Reading whole files uses this decoder: if it gave up, the fallback would give the same samples,
// so its result is checked directly.
TEST(DecodeFlac, DecodesOurOwnFiles) {
  const TempFolder folder;
  const auto path = folder.path() / "a.flac";
  write_flac(path, make_signal(Signal::kSpeechLike, 16'000, 1), 16'000);
  const auto ours = decode_flac(bytes_of(test::content_of(path)), kEverything);
  ASSERT_TRUE(ours.has_value());
  EXPECT_EQ(*ours, read_audio({.path = path}, 16'000));
}

// Where the frames begin.
size_t metadata_size(const std::string& bytes) {
  for (size_t at = 4;;) {
    const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(bytes[i])); };
    const bool is_last = byte(at) >= 128;
    at += 4 + (byte(at + 1) << 16 | byte(at + 2) << 8 | byte(at + 3));
    if (is_last) return at;
  }
}

TEST(DecodeFlac, GivesUpOnEveryBrokenBitAndTruncation) {
  const TempFolder folder;
  const std::string bytes =
      write_flac_bytes(folder, make_signal(Signal::kSpeechLike, 5'000, 1), {});
  const size_t first = metadata_size(bytes);
  ASSERT_TRUE(decode_flac(bytes_of(bytes), kEverything).has_value());
  for (size_t i = first; i < bytes.size(); ++i) {
    std::string broken = bytes;
    broken[i] = static_cast<char>(broken[i] ^ (1 << i % 8));
    ASSERT_FALSE(decode_flac(bytes_of(broken), kEverything).has_value()) << "byte " << i;
  }
  for (size_t size = 0; size < bytes.size(); size += size < first ? 1 : 13)
    ASSERT_FALSE(decode_flac(bytes_of(bytes.substr(0, size)), kEverything).has_value()) << size;
}

TEST(DecodeFlac, GivesUpOnUnusualStreams) {
  const TempFolder folder;
  const std::string bytes = write_flac_bytes(folder, make_signal(Signal::kNoise, 5'000, 1), {});
  EXPECT_FALSE(decode_flac(bytes_of("ID3" + bytes), kEverything).has_value());
  // Total samples: 36 bits that end 18 bytes behind the beginning of STREAMINFO.
  std::string unknown = bytes;
  for (size_t i = 22; i < 26; ++i) unknown[i] = 0;
  EXPECT_FALSE(decode_flac(bytes_of(unknown), kEverything).has_value());
  std::string more = bytes;
  more[24] = static_cast<char>(more[24] + 1);
  EXPECT_FALSE(decode_flac(bytes_of(more), kEverything).has_value());
  // A frame out of its place.
  const size_t first = metadata_size(bytes);
  EXPECT_FALSE(decode_flac(bytes_of(bytes.substr(0, first) + bytes.substr(first + 40)), kEverything)
                   .has_value());
}

// --- what no encoder at hand writes

std::string whole_stream(const std::string& subframe) {
  return test::flac_stream(test::flac_frame(subframe));
}

TEST(DecodeFlac, ReadsResidualsWithoutRiceCode) {
  const std::string stream = whole_stream(test::flac_subframe_without_rice());
  const TempFolder folder;
  folder.write("a.flac", stream);
  const auto ours = decode_flac(bytes_of(stream), kEverything);
  ASSERT_TRUE(ours.has_value());
  const std::vector<int> expected = {1000, 984,  983,  983,  984,  986,  989,  1004,
                                     1004, 1004, 1004, 1004, 1004, 1004, 1004, 1004};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ((*ours)[i] * 32768.0f, expected[i]) << i;
  EXPECT_EQ(*ours, by_libsndfile(folder.path() / "a.flac"));
}

TEST(DecodeFlac, ReadsALinearPredictor) {
  const std::string stream = whole_stream(test::flac_subframe_linear());
  const TempFolder folder;
  folder.write("a.flac", stream);
  const auto ours = decode_flac(bytes_of(stream), kEverything);
  ASSERT_TRUE(ours.has_value());
  EXPECT_EQ(*ours, by_libsndfile(folder.path() / "a.flac"));
}

// A header may claim anything: memory is allocated as frames are decoded.
TEST(DecodeFlac, DoesNotAllocateForAClaimedLength) {
  const auto most_kib = [] {
    struct rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const std::string noise(40'000, '\x55');
  const std::string stream = test::flac_stream(noise, {.samples = 200'000'000});
  const long before = most_kib();
  EXPECT_FALSE(decode_flac(bytes_of(stream), kEverything).has_value());
  EXPECT_LT(most_kib() - before, 64 << 10);
}

TEST(FlacBits, DetectsReadsPastTheEnd) {
  const std::string bytes = "\x01\x80";
  flac::BitReader bits(bytes_of(bytes));
  EXPECT_EQ(bits.take_unary(), 7);
  EXPECT_EQ(bits.take_signed(3), -4);
  EXPECT_EQ(bits.take(5), 0u);
  EXPECT_FALSE(bits.is_past_end());
  EXPECT_EQ(bits.byte_position(), 2u);
  bits.take_unary();
  EXPECT_TRUE(bits.is_past_end());
}

// Any input gives a result: samples or none.
TEST(DecodeFlac, BrokenBytesNeverCrashIt) {
  const TempFolder folder;
  std::vector<std::string> files = {whole_stream(test::flac_subframe_without_rice())};
  for (const Signal signal : kSignals) {
    for (const int channels : {1, 2})
      files.push_back(
          write_flac_bytes(folder, make_signal(signal, 600, channels), {.channels = channels}));
  }
  const auto decode = [&](Mutator& mutator) {
    const std::string bytes = mutator.mutate(files[mutator.below(files.size())]);
    if (!decode_flac(bytes_of(bytes), kEverything))
      throw DataError({.attempted = "decoding FLAC", .found = "nothing"});
  };
  test::run_rounds(decode, "decoding FLAC");
}

}  // namespace
}  // namespace sotto::data
