// Safetensors files: whole ones, and headers of files that are whole but for them.
#include "fuzz/fuzz_target.h"
#include "sotto/core/formats/safetensors.h"
#include "support/reader_checks.h"
#include "support/reader_samples.h"

namespace sotto::fuzz {

namespace {

constexpr size_t kLengthBytes = 8;
// Of the values in the sample.
constexpr size_t kValueBytes = 42;

}  // namespace

std::vector<std::string> seeds() {
  const std::string file = test::safetensors_sample();
  return {file, file.substr(kLengthBytes, file.size() - kLengthBytes - kValueBytes)};
}

void read(std::string_view input) {
  const std::string as_header = test::bytes_of_number<uint64_t>(input.size()) + std::string(input) +
                                std::string(kValueBytes, 'v');
  for (const std::string& bytes : {std::string(input), as_header}) {
    const std::filesystem::path path = file_of(bytes);
    allow_refusal(path, [&] { test::check_tensor_file<SafetensorsFile>(path); });
  }
}

}  // namespace sotto::fuzz
