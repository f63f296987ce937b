#include "sotto/data/import/demo_corpus.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/files/atomic_folder.h"
#include "sotto/core/rng.h"
#include "sotto/data/audio/audio.h"
#include "sotto/data/manifest/manifest_writer.h"

// NOLINTNEXTLINE(readability-redundant-declaration): not declared by every <unistd.h>
extern char** environ;

namespace sotto::data {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kSampleRate = 16'000;
constexpr double kMinSeconds = 1.0;
constexpr double kMaxSeconds = 12.0;

constexpr std::array<std::string_view, 10> kDigits = {"zero", "one", "two",   "three", "four",
                                                      "five", "six", "seven", "eight", "nine"};
constexpr std::array<std::string_view, 5> kVerbs = {"open", "close", "start", "stop", "check"};
constexpr std::array<std::string_view, 6> kThings = {"the door", "the window", "the light",
                                                     "the pump", "the fan",    "the heater"};
constexpr std::array<std::string_view, 3> kPlaces = {"", " upstairs", " in the garden"};

// Accents with speaker variants; the last of each list are not used for training.
constexpr std::array<std::string_view, 28> kTrainVoices = {
    "en-us+m1",          "en-us+m2",          "en-us+m3",          "en-us+m5",
    "en-us+m7",          "en-us+f1",          "en-us+f2",          "en-us+f3",
    "en-us+f4",          "en-gb+m1",          "en-gb+m2",          "en-gb+m4",
    "en-gb+m6",          "en-gb+f1",          "en-gb+f2",          "en-gb+f3",
    "en-gb+f4",          "en-gb-x-rp+m3",     "en-gb-x-rp+m7",     "en-gb-x-rp+f2",
    "en-gb-x-rp+f3",     "en-029+m4",         "en-029+m6",         "en-029+f1",
    "en-gb-scotland+m1", "en-gb-scotland+m5", "en-gb-scotland+f2", "en-gb-scotland+f3"};
constexpr std::array<std::string_view, 3> kDevVoices = {"en-us+f5", "en-gb+m8", "en-gb-x-rp+m1"};
constexpr std::array<std::string_view, 3> kTestVoices = {"en-us+m8", "en-gb+f5",
                                                         "en-gb-scotland+f4"};

struct Split {
  std::string_view name;
  std::span<const std::string_view> voices;
  int64_t num_utterances;
};

// Random draws of one utterance: text, voice, speed, noise level.
class Draws {
 public:
  Draws(uint64_t seed, uint64_t utterance)
      : stream_({.seed = seed, .purpose = Purpose::kAugmentation}, {.utterance = utterance}) {}

  int64_t below(int64_t end) {
    return static_cast<int64_t>(stream_.uniform(next_++) * static_cast<float>(end));
  }
  template <class Words>
  std::string_view one_of(const Words& words) {
    return words[static_cast<size_t>(below(std::ssize(words)))];
  }
  double between(double low, double high) { return low + (high - low) * stream_.uniform(next_++); }

  std::string sentence() {
    if (below(3) == 0)
      return fmt::format("{} {}{}", one_of(kVerbs), one_of(kThings), one_of(kPlaces));
    std::string text(one_of(kDigits));
    const int64_t more = 1 + below(7);
    for (int64_t i = 0; i < more; ++i) text += fmt::format(" {}", one_of(kDigits));
    return text;
  }

  // Adds normally distributed noise, `decibels` below the signal.
  void add_noise(std::vector<float>& samples, double decibels) const {
    double power = 0.0;
    for (const float sample : samples) power += static_cast<double>(sample) * sample;
    power /= static_cast<double>(samples.size());
    const auto scale = static_cast<float>(std::sqrt(power) * std::pow(10.0, -decibels / 20.0));
    constexpr uint64_t kFirst = 1024;  // after the numbers that next_ counts
    for (size_t i = 0; i < samples.size(); ++i)
      samples[i] = std::clamp(samples[i] + scale * stream_.normal(kFirst + i), -1.0f, 1.0f);
  }

 private:
  RandomStream stream_;
  uint64_t next_ = 0;
};

// Runs espeak-ng to completion.
void speak(const std::string& text, const std::string& voice, int64_t speed, const fs::path& wave) {
  const std::vector<std::string> words = {
      "espeak-ng", "-v", voice, "-s", fmt::format("{}", speed), "-w", wave.string(), text};
  std::vector<char*> arguments;
  for (const std::string& word : words)
    arguments.push_back(const_cast<char*>(word.c_str()));  // NOLINT: posix_spawn does not write
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int error = posix_spawnp(&child, "espeak-ng", nullptr, nullptr, arguments.data(), environ);
  int status = 0;
  if (error == 0) waitpid(child, &status, 0);
  if (error == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  throw ConfigError({.attempted = fmt::format("speaking '{}' with the voice {}", text, voice),
                     .found = error != 0 ? "espeak-ng could not be started" : "espeak-ng failed",
                     .expected = "espeak-ng, which speaks the demo corpus",
                     .hint = "apt-get install espeak-ng"});
}

// Speaks one utterance into a FLAC file below `folder`; returns its manifest entry.
Utterance make_utterance(const fs::path& folder, const Split& split, uint64_t seed,
                         int64_t number) {
  const fs::path wave = folder / "spoken.wav";
  // An utterance that is too short or too long is drawn again.
  for (uint64_t attempt = 0;; ++attempt) {
    Draws draws(seed, fold({.utterance = static_cast<uint64_t>(number),
                            .segment = static_cast<uint32_t>(split.name.size() * 16 +
                                                             static_cast<size_t>(split.name[0])),
                            .copy = static_cast<uint32_t>(attempt)}));
    const std::string text = draws.sentence();
    const std::string voice(draws.one_of(split.voices));
    speak(text, voice, 110 + draws.below(90), wave);
    std::vector<float> samples = read_audio({.path = wave}, kSampleRate);
    const double seconds = static_cast<double>(samples.size()) / kSampleRate;
    if (seconds < kMinSeconds || seconds > kMaxSeconds) continue;
    draws.add_noise(samples, draws.between(15.0, 35.0));
    const std::string file = fmt::format("audio/{}-{:04}.flac", split.name, number);
    write_flac(folder / file, samples, kSampleRate);
    Utterance utterance;
    utterance.file = file;
    utterance.duration_s = seconds;
    utterance.text = text;
    utterance.speaker = voice;
    return utterance;
  }
}

}  // namespace

DemoCorpus make_demo_corpus(const fs::path& folder, const DemoCorpusOptions& options,
                            const std::function<void(int64_t)>& progress) {
  const std::array splits = {Split{"train", kTrainVoices, options.train_utterances},
                             Split{"dev", kDevVoices, options.dev_utterances},
                             Split{"test", kTestVoices, options.test_utterances}};
  if (fs::exists(folder)) {
    throw ConfigError({.attempted = fmt::format("making a corpus in {}", folder.string()),
                       .found = "the folder exists",
                       .hint = "Name another with --out, or remove it."});
  }
  AtomicFolder aside(folder);
  fs::create_directories(aside.path() / "audio");
  DemoCorpus corpus{
      .train = folder / "train.jsonl", .dev = folder / "dev.jsonl", .test = folder / "test.jsonl"};
  int64_t done = 0;
  for (const Split& split : splits) {
    ManifestWriter manifest(aside.path() / fmt::format("{}.jsonl", split.name));
    for (int64_t number = 0; number < split.num_utterances; ++number) {
      const Utterance utterance = make_utterance(aside.path(), split, options.seed, number);
      corpus.audio_seconds += utterance.duration_s;
      manifest.add(utterance);
      if (progress) progress(++done);
    }
    manifest.finish();
  }
  fs::remove(aside.path() / "spoken.wav");
  aside.commit();
  return corpus;
}

}  // namespace sotto::data
