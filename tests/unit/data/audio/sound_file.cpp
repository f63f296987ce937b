#include "unit/data/audio/sound_file.h"

#include <sndfile.h>

#include <cmath>
#include <numbers>
#include <stdexcept>

namespace sotto::data {

namespace {

SF_INFO info_of(const std::filesystem::path& path, const Sound& sound) {
  SF_INFO info = {};
  info.channels = sound.channels;
  info.samplerate = sound.sample_rate;
  const std::string name = path.filename().string();
  info.format = SF_FORMAT_WAV | SF_FORMAT_PCM_16;
  if (name.ends_with(".float.wav")) info.format = SF_FORMAT_WAV | SF_FORMAT_FLOAT;
  if (name.ends_with(".u8.wav")) info.format = SF_FORMAT_WAV | SF_FORMAT_PCM_U8;
  if (name.ends_with(".24.wav")) info.format = SF_FORMAT_WAV | SF_FORMAT_PCM_24;
  if (name.ends_with(".32.wav")) info.format = SF_FORMAT_WAV | SF_FORMAT_PCM_32;
  if (name.ends_with(".double.wav")) info.format = SF_FORMAT_WAV | SF_FORMAT_DOUBLE;
  if (name.ends_with(".flac")) info.format = SF_FORMAT_FLAC | SF_FORMAT_PCM_16;
  if (name.ends_with(".ogg")) info.format = SF_FORMAT_OGG | SF_FORMAT_VORBIS;
  if (name.ends_with(".opus")) info.format = SF_FORMAT_OGG | SF_FORMAT_OPUS;
  if (name.ends_with(".mp3")) info.format = SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III;
  return info;
}

}  // namespace

Sound tone(double seconds, int channels, int sample_rate) {
  Sound sound{.samples = {}, .channels = channels, .sample_rate = sample_rate};
  const auto frames = static_cast<int64_t>(std::llround(seconds * sample_rate));
  for (int64_t i = 0; i < frames; ++i) {
    const double angle = 2.0 * std::numbers::pi * 440.0 * static_cast<double>(i) / sample_rate;
    sound.samples.insert(sound.samples.end(), static_cast<size_t>(channels),
                         static_cast<float>(0.5 * std::sin(angle)));
  }
  return sound;
}

void write_sound(const std::filesystem::path& path, const Sound& sound) {
  SF_INFO info = info_of(path, sound);
  SNDFILE* file = sf_open(path.c_str(), SFM_WRITE, &info);
  if (file == nullptr) throw std::runtime_error(sf_strerror(nullptr));
  const auto frames = static_cast<sf_count_t>(sound.samples.size()) / sound.channels;
  sf_count_t written = 0;
  // libsndfile's Vorbis encoder overflows its stack on long blocks.
  while (written < frames) {
    const sf_count_t now = std::min<sf_count_t>(frames - written, 4'096);
    if (sf_writef_float(file, sound.samples.data() + written * sound.channels, now) != now) break;
    written += now;
  }
  sf_close(file);
  if (written != frames) throw std::runtime_error("could not write " + path.string());
}

bool can_write(const std::filesystem::path& path) {
  SF_INFO info = info_of(path, {});
  if (path.extension() == ".opus") info.samplerate = 48'000;
  return sf_format_check(&info) != 0;
}

}  // namespace sotto::data
