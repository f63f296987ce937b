// A WAV file for tests that only read audio: a tone at 16 kHz in 16 bits.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

namespace sotto::test {

// `pitch`: radians a sample.
inline std::string wav_bytes(int64_t num_samples, double pitch) {
  std::string bytes;
  const auto put = [&](uint32_t value, int num_bytes) {
    for (int i = 0; i < num_bytes; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  };
  const auto data_bytes = static_cast<uint32_t>(2 * num_samples);
  bytes += "RIFF";
  put(36 + data_bytes, 4);
  bytes += "WAVEfmt ";
  put(16, 4);
  put(1, 2);  // PCM
  put(1, 2);  // one channel
  put(16'000, 4);
  put(32'000, 4);
  put(2, 2);
  put(16, 2);
  bytes += "data";
  put(data_bytes, 4);
  for (int64_t i = 0; i < num_samples; ++i) {
    const double value = 8000.0 * std::sin(pitch * static_cast<double>(i));
    put(static_cast<uint16_t>(static_cast<int16_t>(value)), 2);
  }
  return bytes;
}

}  // namespace sotto::test
