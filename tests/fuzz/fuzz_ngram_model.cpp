// Language models of words in ARPA's form.
#include "fuzz/fuzz_target.h"
#include "support/data_reader_checks.h"
#include "support/reader_samples.h"

namespace sotto::fuzz {

std::vector<std::string> seeds() {
  return {test::arpa_sample(),
          "\\data\\\nngram 1=2\n\\1-grams:\n-5e-1 a -2e-01\n-0.5 </s>\n\\end\\\n"};
}

void read(std::string_view input) {
  const std::filesystem::path path = file_of(input);
  allow_refusal(path, [&] { test::check_ngram_model(path); });
}

}  // namespace sotto::fuzz
