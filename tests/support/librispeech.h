// True lengths of utterances, for tests of packing and placement.
#pragma once

#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

namespace sotto::test {

// Seconds of the 28,539 utterances of train-clean-100; empty where SOTTO_TEST_DATA names no folder
// with librispeech_durations.
inline std::vector<float> librispeech_seconds() {
  const char* data = std::getenv("SOTTO_TEST_DATA");
  if (data == nullptr) return {};
  const auto path =
      std::filesystem::path(data) / "librispeech_durations" / "train-clean-100.seconds.txt.gz";
  std::vector<float> seconds;
  gzFile file = gzopen(path.c_str(), "rb");
  char line[64];
  while (file != nullptr && gzgets(file, line, sizeof(line)) != nullptr)
    seconds.push_back(std::strtof(line, nullptr));
  if (file != nullptr) gzclose(file);
  return seconds;
}

}  // namespace sotto::test
