// Lines of manifests.
#include "fuzz/fuzz_target.h"
#include "support/data_reader_checks.h"
#include "support/reader_samples.h"

namespace sotto::fuzz {

std::vector<std::string> seeds() {
  return {
      test::manifest_line_sample(1), test::feature_line_sample(), test::segment_line_sample(),
      R"({"text": "\"\u0142", "offset": 1e-1, "lang": null, "duration": 2, "audio_filepath": "ö"})",
      R"({"duration": 1, "text": "", "audio_filepath": "a", "audio_filepath": "b"})"};
}

void read(std::string_view input) {
  test::check_manifest_line(input);
}

}  // namespace sotto::fuzz
