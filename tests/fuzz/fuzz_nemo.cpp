// `.nemo` archives: whole ones, settings in archives that are whole but for them, compressed ones,
// and files of SentencePiece models.
#include "fuzz/fuzz_target.h"
#include "support/data_reader_checks.h"
#include "support/reader_samples.h"

namespace sotto::fuzz {

std::vector<std::string> seeds() {
  const std::string config = test::nemo_config_sample();
  const std::string archive = test::nemo_sample(config);
  return {config, archive, test::gzip_of(archive), test::gzip_of("short"),
          test::nemo_tokenizer_sample()};
}

void read(std::string_view input) {
  allow_refusal("name", [&] { test::check_nemo(bytes_of(input), "name"); });
  // Memory of just that size.
  const std::string whole = test::nemo_sample(std::string(input));
  const std::vector<char> copy(whole.begin(), whole.end());
  allow_refusal("name", [&] { test::check_nemo(std::as_bytes(std::span(copy)), "name"); });
  allow_refusal("name", [&] { test::check_gzip(bytes_of(input), "name"); });
  allow_refusal("name", [&] { test::check_stored_pieces(input, "name"); });
}

}  // namespace sotto::fuzz
