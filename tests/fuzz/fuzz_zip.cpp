// Zip archives.
#include "fuzz/fuzz_target.h"
#include "support/reader_checks.h"
#include "support/reader_samples.h"

namespace sotto::fuzz {

std::vector<std::string> seeds() {
  return {test::zip_of({{"a/b", "content"}, {"c", ""}}),
          test::zip_of({{"a/b", "content"}, {"c", "x"}}, {.is_64 = true, .comment = "abc"})};
}

void read(std::string_view input) {
  allow_refusal("name", [&] { test::check_zip(bytes_of(input), "name"); });
}

}  // namespace sotto::fuzz
