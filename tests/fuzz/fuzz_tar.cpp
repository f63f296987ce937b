// Tar archives, as they are and with the sums of their headers made right, so that what lies behind
// a sum is reached.
#include "fuzz/fuzz_target.h"
#include "support/reader_checks.h"
#include "support/reader_samples.h"

namespace sotto::fuzz {

namespace {

// Every block that begins like a header of the sample.
std::string with_sums(std::string archive) {
  for (size_t at = 0; at + test::kTarBlock <= archive.size(); at += test::kTarBlock) {
    if (archive.compare(at + test::kTarMagicAt, 5, "ustar") != 0) continue;
    archive.replace(at, test::kTarBlock, test::with_tar_sum(archive.substr(at, test::kTarBlock)));
  }
  return archive;
}

}  // namespace

std::vector<std::string> seeds() {
  return {test::tar_sample(), test::tar_file({.name = "a"}, "one"),
          test::tar_file({.name = "./b", .magic = "ustar  "}, std::string(600, 'x'))};
}

void read(std::string_view input) {
  for (const std::string& bytes : {std::string(input), with_sums(std::string(input))}) {
    // The walk through memory of just that size.
    const std::vector<char> copy(bytes.begin(), bytes.end());
    const std::span<const std::byte> archive = std::as_bytes(std::span(copy));
    allow_refusal("name", [&] { test::check_tar(archive, "name"); });
    const std::filesystem::path path = file_of(bytes);
    allow_refusal(path, [&] { test::check_tar_file(path, archive); });
  }
}

}  // namespace sotto::fuzz
