// WAV: whole files, and what comes after the first header.
#include "fuzz/fuzz_target.h"
#include "support/data_reader_checks.h"
#include "support/reader_samples.h"

namespace sotto::fuzz {

std::vector<std::string> seeds() {
  return test::wav_samples();
}

void read(std::string_view input) {
  for (const std::string& bytes : {std::string(input), "RIFF1234WAVE" + std::string(input),
                                   test::wav_file(std::string(input))})
    allow_refusal("WAV", [&] { test::check_wav(bytes); });
}

}  // namespace sotto::fuzz
