// Audio files for tests, made by libsndfile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace sotto::data {

struct Sound {
  // Frame after frame, the channels of a frame side by side.
  std::vector<float> samples;
  int channels = 1;
  int sample_rate = 16'000;
};

// A tone of 440 Hz at half of full scale, the same in all channels.
Sound tone(double seconds, int channels = 1, int sample_rate = 16'000);

// Writes the format that the name ends in: .wav (16 bit), .u8.wav, .24.wav, .32.wav, .float.wav,
// .double.wav, .flac, .ogg, .opus, .mp3. Throws where this libsndfile cannot write it.
void write_sound(const std::filesystem::path& path, const Sound& sound);

// Whether this libsndfile can write the format that the name ends in.
bool can_write(const std::filesystem::path& path);

}  // namespace sotto::data
