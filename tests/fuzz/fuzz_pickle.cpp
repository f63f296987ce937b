// Pickles of state dicts.
#include "fuzz/fuzz_target.h"
#include "support/reader_checks.h"
#include "support/reader_samples.h"

namespace sotto::fuzz {

std::vector<std::string> seeds() {
  return {test::pickle_sample(/*is_old=*/false), test::pickle_sample(/*is_old=*/true)};
}

void read(std::string_view input) {
  allow_refusal("name", [&] { test::check_pickle(bytes_of(input), "name"); });
}

}  // namespace sotto::fuzz
