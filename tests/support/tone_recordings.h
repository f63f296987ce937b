// Recordings of tones that even tiny networks learn to transcribe: a letter is a tone, words have
// silence between them.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>
#include <vector>

#include "support/temp_folder.h"
#include "support/wav_bytes.h"

namespace sotto::test {

inline constexpr double kToneRate = 16'000.0;
inline constexpr double kLetterSeconds = 0.16;
inline constexpr double kPauseSeconds = 0.28;

struct SpokenWord {
  std::string text;
  double start_s;
  double end_s;
};

// Tones for letters, silence between words.
struct Recording {
  std::string text;
  std::vector<SpokenWord> words;
  std::vector<int16_t> samples;

  void add(double seconds, double frequency) {
    const auto count = static_cast<int64_t>(seconds * kToneRate);
    for (int64_t i = 0; i < count; ++i) {
      const double angle =
          2.0 * std::numbers::pi * frequency * static_cast<double>(samples.size()) / kToneRate;
      samples.push_back(static_cast<int16_t>(frequency > 0.0 ? 8'000.0 * std::sin(angle)
                                                             : static_cast<double>(i % 3)));
    }
  }
  double seconds() const { return static_cast<double>(samples.size()) / kToneRate; }
};

inline Recording draw_recording(int64_t number) {
  Recording recording;
  recording.add(kPauseSeconds, 0.0);
  for (int64_t w = 0; w < 2 + number % 2; ++w) {
    SpokenWord word{.text = "", .start_s = recording.seconds(), .end_s = 0.0};
    for (int64_t i = 0; i <= (number + w) % 2; ++i) {
      const int64_t letter = (number * 5 + w * 3 + i * (1 + number % 3)) % 4;
      word.text += static_cast<char>('a' + letter);
      recording.add(kLetterSeconds, 400.0 + 700.0 * static_cast<double>(letter));
    }
    word.end_s = recording.seconds();
    recording.add(kPauseSeconds, 0.0);
    recording.text += (recording.text.empty() ? "" : " ") + word.text;
    recording.words.push_back(word);
  }
  return recording;
}

// Writes recordings 0 to count - 1 into the folder, and their manifest as speech.jsonl.
inline void write_recordings(const TempFolder& folder, int64_t count) {
  std::string lines;
  for (int64_t number = 0; number < count; ++number) {
    const Recording recording = draw_recording(number);
    const std::string name = "u" + std::to_string(number) + ".wav";
    folder.write(name, wav_file(recording.samples));
    lines +=
        nlohmann::json(
            {{"audio_filepath", name}, {"duration", recording.seconds()}, {"text", recording.text}})
            .dump() +
        "\n";
  }
  folder.write("speech.jsonl", lines);
}

}  // namespace sotto::test
