// NumPy's arrays: whole files, and headers of files that are whole but for them.
#include "fuzz/fuzz_target.h"
#include "support/reader_checks.h"
#include "support/reader_samples.h"

namespace sotto::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> seeds = test::npy_headers();
  for (const uint64_t version : {1, 2, 3})
    seeds.push_back(test::npy_sample(test::npy_headers()[0], version));
  return seeds;
}

void read(std::string_view input) {
  for (const std::string& bytes : {std::string(input), test::npy_sample(std::string(input), 2)}) {
    const std::filesystem::path path = file_of(bytes);
    allow_refusal(path, [&] { test::check_npy(path); });
  }
}

}  // namespace sotto::fuzz
