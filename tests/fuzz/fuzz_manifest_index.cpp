// Stored indices of manifests. Their header has a checksum, which no input would meet: the input
// lies over what follows the header of a good one.
#include "fuzz/fuzz_target.h"
#include "sotto/data/manifest/manifest.h"
#include "support/reader_samples.h"

namespace sotto::fuzz {

namespace {

constexpr size_t kHeaderBytes = 56;
const data::IndexOptions kStored{.num_threads = 1, .min_stored_bytes = 0};

struct Stored {
  test::TempFolder folder = {};
  std::filesystem::path manifest = folder.write("m.jsonl", test::manifest_sample());
  std::filesystem::path index = data::ManifestIndex::open(manifest, kStored).file().value();
  std::string good = test::content_of(index);
};

const Stored& stored() {
  static const Stored once;
  return once;
}

}  // namespace

std::vector<std::string> seeds() {
  return {stored().good.substr(kHeaderBytes)};
}

void read(std::string_view input) {
  std::string bytes = stored().good;
  input = input.substr(0, bytes.size() - kHeaderBytes);
  bytes.replace(kHeaderBytes, input.size(), input);
  stored().folder.write(stored().index.filename(), bytes);
  allow_refusal(stored().manifest, [&] {
    const auto manifest = data::Manifest::read(stored().manifest, kStored);
    for (int64_t u = 0; u < manifest.size(); ++u) manifest.at(u);
    manifest.refuse_bad_lines();
  });
}

}  // namespace sotto::fuzz
