// Manifests: whole files of lines.
#include "fuzz/fuzz_target.h"
#include "support/data_reader_checks.h"
#include "support/reader_samples.h"

namespace sotto::fuzz {

std::vector<std::string> seeds() {
  return {test::manifest_sample(), test::manifest_line_sample(3) + "\n{\n",
          "\xEF\xBB\xBF" + test::feature_line_sample() + "\n" + test::feature_line_sample()};
}

void read(std::string_view input) {
  const std::filesystem::path path = file_of(input);
  allow_refusal(path,
                [&] { test::check_manifest(data::Manifest::read(path, {.num_threads = 1})); });
}

}  // namespace sotto::fuzz
