// WAV by our reader: the frames and samples of libsndfile to the bit, or a fault.
#include "sotto/data/audio/wav_reader.h"

#include <gtest/gtest.h>

#include <map>

#include "sotto/data/audio/sound_file.h"
#include "support/data_reader_checks.h"
#include "support/mutator.h"
#include "support/reader_samples.h"
#include "support/temp_folder.h"
#include "support/wav_bytes.h"

namespace sotto::data {
namespace {

using test::noise_samples;
using test::riff_chunk;
using test::wav_file;
using test::WavForm;

constexpr int64_t kAllFrames = int64_t{1} << 40;

WavHeader header_in(const std::string& bytes) {
  const auto header = read_wav_header(test::read_from(bytes), std::ssize(bytes));
  if (const auto* fault = std::get_if<WavFault>(&header)) {
    ADD_FAILURE() << fault->found;
    return {};
  }
  return std::get<WavHeader>(header);
}

WavFault fault_in(const std::string& bytes) {
  const auto header = read_wav_header(test::read_from(bytes), std::ssize(bytes));
  if (const auto* fault = std::get_if<WavFault>(&header)) return *fault;
  ADD_FAILURE() << "no fault";
  return {};
}

void expect_as_libsndfile(const std::string& bytes, const std::string& what) {
  const test::TempFolder folder;
  TarShards shards;
  SoundFile theirs(folder.write("a.wav", bytes), shards);
  const WavHeader ours = header_in(bytes);
  EXPECT_EQ(ours.info.sample_rate, theirs.info().sample_rate) << what;
  EXPECT_EQ(ours.info.channels, theirs.info().channels) << what;
  EXPECT_EQ(ours.info.frames, theirs.info().frames) << what;
  EXPECT_EQ(ours.promised_frames, theirs.promised_frames()) << what;
  EXPECT_EQ(read_wav_samples(test::read_from(bytes), ours, 0, kAllFrames), theirs.read(kAllFrames))
      << what;
}

TEST(ReadWav, MatchesLibsndfile) {
  for (const uint32_t channels : {1U, 2U, 3U, 8U}) {
    for (const int64_t frames : {1, 2, 100, 32'767, 32'768, 32'769, 70'001}) {
      expect_as_libsndfile(wav_file(noise_samples(frames * channels), {.channels = channels}),
                           fmt::format("{} frames of {} channels", frames, channels));
    }
  }
  expect_as_libsndfile(wav_file(noise_samples(500), {.rate = 44'100}), "44.1 kHz");
}

TEST(ReadWav, ReadsAnyPart) {
  const std::string bytes = wav_file(noise_samples(80'000), {.channels = 2});
  const WavHeader header = header_in(bytes);
  const auto part = [&](int64_t first, int64_t most) {
    return read_wav_samples(test::read_from(bytes), header, first, most);
  };
  const std::vector<float> all = part(0, kAllFrames);
  ASSERT_EQ(all.size(), 40'000u);
  EXPECT_EQ(part(1, 20'000), std::vector(all.begin() + 1, all.begin() + 20'001));
  EXPECT_EQ(part(39'999, 5), std::vector(all.end() - 1, all.end()));
  EXPECT_TRUE(part(40'000, 5).empty());
  EXPECT_TRUE(part(50'000, 5).empty());
}

TEST(ReadWav, AcceptsTheFormsThatLibsndfileAccepts) {
  const std::string list =
      riff_chunk("LIST", "INFOISFT" + test::little_endian(5, 4) + std::string("Lavf\0", 5));
  const std::string odd = riff_chunk("note", "odd");
  const std::map<std::string, WavForm> forms = {
      {"LIST before data", {.before_data = list}},
      {"an odd chunk before data", {.before_data = odd}},
      {"a large chunk before data", {.before_data = riff_chunk("junk", std::string(100'001, 'j'))}},
      {"chunks before fmt", {.before_format = riff_chunk("JUNK", std::string(28, '\0')) + list}},
      {"chunks behind data", {.after_data = list + odd}},
      {"extensible", {.is_extensible = true}},
      {"extensible in stereo", {.channels = 2, .is_extensible = true}},
      {"from a pipe", {.riff_bytes = 0xFFFFFFFF, .data_bytes = 0xFFFFFFFF}},
      {"from a pipe of sox", {.riff_bytes = 0x7FFFF024, .data_bytes = 0x7FFFF000}},
      {"as large as can be said", {.data_bytes = 0x7FFEFFFF}},
      {"not closed", {.riff_bytes = 8, .data_bytes = 0}},
      {"said to be empty", {.data_bytes = 0}},
      {"promises more", {.data_bytes = 40'000}},
      {"promises less", {.data_bytes = 1'000}},
      {"promises less, and half a frame", {.channels = 2, .data_bytes = 1'002}},
      {"promises less, an odd number", {.data_bytes = 1'001}},
      {"a wrong RIFF size", {.riff_bytes = 4}}};
  const std::vector<int16_t> samples = noise_samples(2'000);
  for (const auto& [what, form] : forms) expect_as_libsndfile(wav_file(samples, form), what);
  const std::string whole = wav_file(samples);
  for (const size_t size : {size_t{44}, size_t{45}, size_t{46}, size_t{47}, whole.size() - 1})
    expect_as_libsndfile(whole.substr(0, size), fmt::format("the first {} bytes", size));
}

TEST(ReadWav, NamesUnsupportedKinds) {
  const std::map<std::string, WavForm> forms = {
      {"WAV of 8-bit PCM", {.bits = 8}},
      {"WAV of 24-bit PCM", {.bits = 24, .is_extensible = true}},
      {"WAV of 32-bit floating point", {.bits = 32, .tag = 3}},
      {"WAV of A-law", {.bits = 8, .tag = 6}},
      {"WAV of mu-law", {.bits = 8, .tag = 7, .is_extensible = true}},
      {"WAV of format 0x0011", {.bits = 16, .tag = 0x11}}};
  for (const auto& [name, form] : forms) {
    const WavFault fault = fault_in(wav_file(std::string(96, 'x'), form));
    EXPECT_EQ(fault.found, name);
    EXPECT_TRUE(fault.is_other_kind) << name;
  }
}

TEST(ReadWav, RefusesBrokenFiles) {
  const std::string bytes = wav_file(noise_samples(100));
  for (size_t size = 0; size < 44; ++size)
    EXPECT_FALSE(fault_in(bytes.substr(0, size)).is_other_kind) << size;
  EXPECT_EQ(fault_in("this is a text, not audio\n").found, "no WAV header");
  EXPECT_EQ(fault_in(wav_file("abcd", {.channels = 0})).found, "its header claims 0 channels");
  std::string frame = bytes;
  frame[32] = 3;
  EXPECT_EQ(fault_in(frame).found, "its header claims 3 bytes per frame of 1 channels");
  EXPECT_EQ(fault_in(wav_file("", {.before_format = riff_chunk("data", "abcd")})).found,
            "samples before their format");
  std::string chunks;
  for (int i = 0; i < 20'000; ++i) chunks += riff_chunk("none", "");
  EXPECT_EQ(fault_in(wav_file("abcd", {.before_data = chunks})).found,
            "10000 chunks before any samples");
}

// The file is truncated while it is read.
TEST(ReadWav, StopsAtTheLastByte) {
  const std::string bytes = wav_file(noise_samples(70'000));
  const WavHeader header = header_in(bytes);
  const std::string cut = bytes.substr(0, 44 + 100'001);
  EXPECT_EQ(read_wav_samples(test::read_from(cut), header, 0, kAllFrames).size(), 50'000u);
}

TEST(ReadWav, BrokenBytesNeverCrashIt) {
  const std::vector<std::string> files = test::wav_samples();
  test::run_rounds(
      [&](test::Mutator& mutator) {
        test::check_wav(mutator.mutate(files[mutator.below(files.size())]));
      },
      "reading WAV");
}

}  // namespace
}  // namespace sotto::data
