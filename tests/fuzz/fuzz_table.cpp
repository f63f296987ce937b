// Tables in CSV and TSV.
#include "fuzz/fuzz_target.h"
#include "support/data_reader_checks.h"

namespace sotto::fuzz {

std::vector<std::string> seeds() {
  return {"path,text\na.wav,\"x, \"\"y\"\"\"\nb.wav,\"two\r\nlines\"\n",
          "\xEF\xBB\xBFpath\ttext\r\n\r\na.wav\t\"ö\"\r\nb.wav\t\"", "a;b|c;d\n1;2;3\n",
          "a|b\n1|\n"};
}

void read(std::string_view input) {
  const std::filesystem::path path = file_of(input);
  allow_refusal(path, [&] { test::check_table(path); });
}

}  // namespace sotto::fuzz
