// FLAC: whole streams, and subframes in frames whose headers are right.
#include "fuzz/fuzz_target.h"
#include "sotto/data/audio/flac_decoder.h"
#include "support/flac_bytes.h"

namespace sotto::fuzz {

namespace {

using test::FlacForm;

constexpr FlacForm kForms[] = {
    {},
    {.samples = 65'536, .block_size = 65'536},
    {.samples = 4'096, .block_size = 4'096, .channels = 8, .assignment = 7},
    {.samples = 64, .block_size = 64, .channels = 2, .assignment = 8},
    {.samples = 64, .block_size = 64, .channels = 2, .assignment = 9},
    {.samples = 64, .block_size = 64, .channels = 2, .assignment = 10}};

}  // namespace

std::vector<std::string> seeds() {
  std::vector<std::string> seeds = {test::flac_subframe_without_rice(),
                                    test::flac_subframe_linear()};
  for (const std::string& subframe : std::vector(seeds))
    seeds.push_back(test::flac_stream(test::flac_frame(subframe)));
  return seeds;
}

void read(std::string_view input) {
  constexpr int64_t kAll = int64_t{1} << 40;
  data::decode_flac(bytes_of(input), kAll);
  data::decode_flac_part(bytes_of(input), 5, kAll);
  data::read_flac_info(bytes_of(input));
  for (const FlacForm& form : kForms) {
    const std::string stream = test::flac_stream(test::flac_frame(std::string(input), form), form);
    data::decode_flac(bytes_of(stream), kAll);
  }
}

}  // namespace sotto::fuzz
