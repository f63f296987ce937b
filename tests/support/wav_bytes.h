// WAV files for tests, byte by byte: in forms that no encoder at hand writes, and where libsndfile
// is missing.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sotto::test {

inline std::string little_endian(uint32_t value, int num_bytes) {
  std::string bytes;
  for (int i = 0; i < num_bytes; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

// An id of four letters, a size and the content, padded to an even number of bytes.
inline std::string riff_chunk(const std::string& id, const std::string& content) {
  return id + little_endian(static_cast<uint32_t>(content.size()), 4) + content +
         std::string(content.size() % 2, '\0');
}

struct WavForm {
  uint32_t channels = 1;
  uint32_t rate = 16'000;
  uint32_t bits = 16;
  uint32_t tag = 1;  // PCM
  bool is_extensible = false;
  // What the sizes claim, where that is not the truth.
  std::optional<uint32_t> riff_bytes = {};
  std::optional<uint32_t> data_bytes = {};
  // Whole chunks at these places.
  std::string before_format = {};
  std::string before_data = {};
  std::string after_data = {};
};

inline std::string wav_format(const WavForm& form) {
  const uint32_t frame_bytes = form.channels * (form.bits / 8);
  std::string format = little_endian(form.is_extensible ? 0xFFFE : form.tag, 2) +
                       little_endian(form.channels, 2) + little_endian(form.rate, 4) +
                       little_endian(form.rate * frame_bytes, 4) + little_endian(frame_bytes, 2) +
                       little_endian(form.bits, 2);
  if (!form.is_extensible) return format;
  const std::string guid_end("\x00\x00\x00\x00\x10\x00\x80\x00\x00\xAA\x00\x38\x9B\x71", 14);
  return format + little_endian(22, 2) + little_endian(form.bits, 2) + little_endian(0, 4) +
         little_endian(form.tag, 2) + guid_end;
}

// `data` are the bytes of the samples.
inline std::string wav_file(const std::string& data, const WavForm& form = {}) {
  const std::string content =
      "WAVE" + form.before_format + riff_chunk("fmt ", wav_format(form)) + form.before_data +
      "data" + little_endian(form.data_bytes.value_or(static_cast<uint32_t>(data.size())), 4) +
      data + form.after_data;
  return "RIFF" +
         little_endian(form.riff_bytes.value_or(static_cast<uint32_t>(content.size())), 4) +
         content;
}

inline std::string wav_file(std::span<const int16_t> samples, const WavForm& form = {}) {
  std::string data;
  for (const int16_t sample : samples) data += little_endian(static_cast<uint16_t>(sample), 2);
  return wav_file(data, form);
}

// A tone at 16 kHz in 16 bits. `pitch`: radians a sample.
inline std::string wav_bytes(int64_t num_samples, double pitch) {
  std::vector<int16_t> samples;
  for (int64_t i = 0; i < num_samples; ++i)
    samples.push_back(static_cast<int16_t>(8000.0 * std::sin(pitch * static_cast<double>(i))));
  return wav_file(samples);
}

// Numbers of the whole range, of which no two places are alike.
inline std::vector<int16_t> noise_samples(int64_t count) {
  std::vector<int16_t> samples;
  uint32_t state = 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1'664'525U + 1'013'904'223U;  // Numerical Recipes, 7.1
    samples.push_back(static_cast<int16_t>(state >> 16));
  }
  return samples;
}

}  // namespace sotto::test
